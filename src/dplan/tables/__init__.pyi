from .fitting import fit_table as fit_table
from .labels import LabelledTable as LabelledTable
from .labels import from_table as from_table
from .model import TableModel as TableModel
from .preparing import TablePreparer as TablePreparer
from .preparing import TransformReport as TransformReport
from .reading import read_table as read_table
from .updating import update_table as update_table
