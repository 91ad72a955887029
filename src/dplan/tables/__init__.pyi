import dplan.columns.differences
import dplan.columns.preparer

from .detector import TableDetector as TableDetector
from .estimating import Estimate as Estimate
from .estimating import estimate as estimate
from .fitting import fit_table as fit_table
from .input import Input as Input
from .inspecting import Inspection as Inspection
from .inspecting import inspect as inspect
from .labelled import LabelledTable as LabelledTable
from .labelled import from_table as from_table
from .labels import Judged as Judged
from .model import TableModel as TableModel
from .onnx import export_onnx as export_onnx
from .reading import read_table as read_table
from .review_queue import read_queue as read_queue
from .updating import Update as Update
from .updating import undo_update as undo_update
from .updating import update_if_better as update_if_better
from .updating import update_model as update_model

TablePreparer = dplan.columns.preparer.TablePreparer
TransformReport = dplan.columns.differences.TransformReport
