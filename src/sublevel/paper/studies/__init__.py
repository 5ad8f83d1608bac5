"""Our own questions, beyond the paper: each study has a picture, its data, and a paragraph of findings in docs/studies."""

from sublevel.paper.studies.runner import SEED, STUDIES, Request, run

__all__ = ["SEED", "STUDIES", "Request", "run"]
