"""The list of `benchmarks/mutations.py` fits the code: every text occurs once, and what replaces it is Python."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("mutations", ROOT / "benchmarks" / "mutations.py")
mutations = importlib.util.module_from_spec(spec)
sys.modules["mutations"] = mutations
spec.loader.exec_module(mutations)


def test_there_are_enough_mutations_and_none_twice():
    assert len(mutations.MUTATIONS) >= 80
    assert len({(one.file, one.old, one.new) for one in mutations.MUTATIONS}) == len(mutations.MUTATIONS)


@pytest.mark.parametrize("one", mutations.MUTATIONS, ids=lambda one: f"{Path(one.file).stem}: {one.breaks}")
def test_the_text_of_a_mutation_occurs_once_and_its_replacement_is_another_program(one):
    text = (ROOT / one.file).read_text()
    assert text.count(one.old) == 1
    changed = text.replace(one.old, one.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    assert one.tests
    assert all((ROOT / test).exists() for test in one.tests)
