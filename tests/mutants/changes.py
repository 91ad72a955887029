"""The changes that mutation testing makes: those of cosmic-ray that people make by mistake, and one more."""

from collections.abc import Iterator
from typing import NamedTuple

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

_COMPARISONS = "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Is_IsNot IsNot_Is"
_BINARY = (
    "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitOr_BitAnd BitAnd_BitOr RShift_LShift"
)
_OTHERS = (
    "ReplaceUnaryOperator_Delete_USub ReplaceUnaryOperator_Delete_Invert ReplaceUnaryOperator_Delete_Not AddNot "
    "ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd ReplaceBreakWithContinue "
    "ReplaceContinueWithBreak ExceptionReplacer NumberReplacer RemoveDecorator ZeroIterationForLoop"
)


class Mutant(NamedTuple):
    """One change: the lines that differ, before and after, and the number of earlier changes that look the same."""

    before: str
    after: str
    number: int
    source: str  # of the whole module

    @property
    def key(self) -> str:
        """What identifies it, wherever its lines are in the module."""
        again = f" ({self.number + 1})" if self.number else ""
        return f"{self.before}  →  {self.after}{again}"


class RemoveStatement(Operator):
    """Leaves out a call or an error that is raised."""

    def mutation_positions(self, node):
        first = node.children[0] if node.type == "simple_stmt" else None
        is_statement = first is not None and first.type in ("atom_expr", "power", "raise_stmt")
        if is_statement and "NotImplementedError" not in first.get_code():  # what a class leaves to others
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        first = node.children[0]
        node.children[0] = parso.python.tree.Keyword("pass", first.start_pos, first.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls):
        return ()


class _Outside(Operator):
    """Another operator, but not where no test need notice.

    Nobody runs annotations, and a star alone is no product. How much of a long text a message shows is a round number,
    and ``strict`` guards against a mistake that nobody has made.
    """

    def __init__(self, operator):
        self.operator = operator

    def mutation_positions(self, node):
        nowhere = _is_annotation(node) or _is_shown_length(node) or _is_strict(node)
        return () if nowhere else self.operator.mutation_positions(node)

    def mutate(self, node, index):
        return self.operator.mutate(node, index)

    @classmethod
    def examples(cls):
        return ()


def _is_annotation(node) -> bool:
    if node.type == "operator" and node.parent.type in ("parameters", "param"):
        return True
    while node.parent is not None:
        above = node.parent
        if above.type in ("tfpdef", "annassign"):
            if above.children[2 if above.type == "tfpdef" else 1] is node:
                return True
        elif above.type == "funcdef" and above.annotation is node:
            return True
        node = above
    return False


def _is_shown_length(node) -> bool:
    is_end = node.type == "number" and node.parent.type == "subscript"
    return is_end and node.search_ancestor("fstring_expr") is not None


def _is_strict(node) -> bool:
    argument = node.parent if node.type == "keyword" else None  # a new `pass` has no parent
    return (
        argument is not None
        and argument.type == "argument"
        and argument.get_code().strip().startswith("strict=")
    )


def mutants(source: str) -> Iterator[Mutant]:
    """Yield every change of a module that still compiles."""
    names = [f"ReplaceComparisonOperator_{name}" for name in _COMPARISONS.split()]
    names += [f"ReplaceBinaryOperator_{name}" for name in _BINARY.split()]
    operators = [get_operator(f"core/{name}")() for name in (*names, *_OTHERS.split())]
    seen: dict[tuple[str, str], int] = {}
    lines = source.splitlines()
    for operator in map(_Outside, (*operators, RemoveStatement())):
        occurrence = 0
        while True:
            try:
                changed = mutate_code(source, operator, occurrence)
                if changed is None:
                    break
                compile(changed, "changed", "exec")
            except (SyntaxError, AttributeError):  # cosmic-ray knows no exceptions with a dot in their name
                continue
            finally:
                occurrence += 1
            before, after = _difference(lines, changed.splitlines())
            number = seen.get((before, after), 0)
            seen[before, after] = number + 1
            yield Mutant(before, after, number, changed)


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """Return the lines that differ, each as one line."""
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    same = 0
    while same < min(len(before), len(after)) - start and before[-1 - same] == after[-1 - same]:
        same += 1
    shown = (" ".join(" ".join(own[start : len(own) - same]).split()) for own in (before, after))
    first, second = shown
    return first, second
