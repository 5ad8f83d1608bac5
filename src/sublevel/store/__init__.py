"""Runs in files: every evaluation is stored when it arrives, and a killed run can be resumed.

Each run is one SQLite file. Nothing in it is executed, and nothing in it determines a type: its contents must fit the
configuration. `sublevel.resume` continues a run, `sublevel.load` reads it.
"""
