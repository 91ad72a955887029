"""What the page shows about a row."""

from dplan.review.details import row_details


def test_shares_of_reasons_are_of_what_raises_the_score(open_session):
    current = open_session().round
    lowered = 0
    for row in current.rows[:100].tolist():
        details = row_details(current, row, current.pool[[current.places[row]]], ["payment"])
        shares = [reason["share"] for reason in details["reasons"]]
        assert all(share > 0 for share in shares)
        assert sum(shares) <= 1 + 0.001 * len(shares)  # they are rounded
        effects = current.model.explain(current.pool[[current.places[row]]]).effects[0]
        lowered += bool(shares) and effects.max() > details["score"] - details["baseline"]
    assert lowered  # some rows in which one column alone is more than the whole difference
