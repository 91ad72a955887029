import dplan.columns.differences
import dplan.columns.preparer

from .detector import TableDetector as TableDetector
from .fitting import fit_table as fit_table
from .input import Input as Input
from .input import read_table as read_table
from .labelled import LabelledTable as LabelledTable
from .labelled import from_table as from_table
from .labels import Judged as Judged
from .model import TableModel as TableModel
from .review_queue import read_queue as read_queue
from .updating import update_model as update_model

TablePreparer = dplan.columns.preparer.TablePreparer
TransformReport = dplan.columns.differences.TransformReport
