"""Runs in files: every evaluation is kept when it arrives, and a run that was killed goes on where it was.

One SQLite file per run. Nothing in it is ever executed, and nothing in it chooses a type: what is read has to fit what
the configuration asks for. `sublevel.resume` continues, `sublevel.load` reads.
"""
