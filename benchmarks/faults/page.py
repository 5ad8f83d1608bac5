"""The rows of a run as tables."""

from __future__ import annotations

from collections import Counter

from faults.verdict import BAD, MEANING, Outcome

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def summary(told: dict) -> str:
    """All tables, in Markdown."""
    rows = told["rows"]
    names = titles(rows)
    cases = len({(row["group"], row["case"]) for row in rows})
    applied = sum(row["outcome"] != Outcome.NONE for row in rows)
    parts = [
        " ".join(
            [
                f"{cases} cases, {len(names)} libraries, {applied} of their combinations apply.",
                *map(sentence, told["runs"]),
            ]
        ),
        "### As it should be, of the cases that apply",
        by_group(rows, names),
        "### How they ended",
        by_outcome(rows, names),
    ]
    return "\n\n".join(parts)


def titles(rows: list[dict]) -> list[str]:
    """The libraries with their versions, in order."""
    return list(dict.fromkeys(row["title"] for row in rows))


def sentence(run: dict) -> str:
    """What a run took."""
    minutes, computed = run["seconds"] / 60, run["computed"] / 60
    some = f" ({', '.join(text.strip(': ') for text in run['only'])})" if run["only"] else ""
    took = f"{minutes:.1f} minutes with {run['lanes']} cases at a time, of which {computed:.1f} minutes of computing."
    return f"{', '.join(run['libraries'])}{some}: {took}"


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(line) + " |" for line in lines)]
    )


def by_group(rows: list[dict], names: list[str]) -> str:
    """For each group and library, how many cases ended as they should."""
    groups = list(dict.fromkeys(row["group"] for row in rows))

    def share(group: str | None, name: str) -> str:
        mine = [
            row
            for row in rows
            if row["title"] == name and group in (None, row["group"]) and row["outcome"] != Outcome.NONE
        ]
        return f"{sum(row['right'] for row in mine)}/{len(mine)}" if mine else "—"

    lines = [[group, *(share(group, name) for name in names)] for group in groups]
    return table(["", *names], [*lines, ["**all**", *(f"**{share(None, name)}**" for name in names)]])


def by_outcome(rows: list[dict], names: list[str]) -> str:
    """For each outcome and library, how many cases ended so, and how many processes were left behind."""
    counts = Counter((row["title"], row["outcome"]) for row in rows)
    lines = [
        [f"**{kind}**" if kind in BAD else str(kind), *(str(counts[name, kind]) for name in names)]
        for kind in Outcome
        if any(counts[name, kind] for name in names)
    ]
    orphans = [str(sum(row.get("orphans", 0) for row in rows if row["title"] == name)) for name in names]
    return table(["", *names], [*lines, ["processes left behind", *orphans]])


def full_list(rows: list[dict], names: list[str]) -> str:
    """Every case with the outcome of every library; those that are not right in bold."""
    found = {(row["group"], row["case"], row["title"]): row for row in rows}
    cases = list(dict.fromkeys((row["group"], row["case"]) for row in rows))

    def cell(row: dict) -> str:
        return row["outcome"] if row["right"] else f"**{row['outcome']}**"

    return table(
        ["", "", *names],
        [[group, escaped(case), *(cell(found[group, case, name]) for name in names)] for group, case in cases],
    )


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")


def meanings() -> str:
    return "\n".join(f"- *{kind}*: {meaning}." for kind, meaning in MEANING.items())


def with_tables(page: str, told: dict) -> str:
    """The page with the tables of a run in the place for them."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    details = f"<details><summary>Every case</summary>\n\n{full_list(told['rows'], titles(told['rows']))}\n\n</details>"
    return f"{before}{BEGIN}\n\n{summary(told)}\n\n{meanings()}\n\n{details}\n\n{END}{after}"
