"""Studies beyond the paper. Each has a figure, its data, and a page of findings in docs/studies."""

from sublevel.paper.streams import SEED
from sublevel.paper.studies.request import STUDIES, Request, run

__all__ = ["SEED", "STUDIES", "Request", "run"]
