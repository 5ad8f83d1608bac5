"""Completion scripts, read by the shells that they are for."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from sublevel.cli.main import COMMANDS, main

NAMES = [command.name for command in COMMANDS]


@pytest.fixture
def script(capsys, tmp_path):
    """Writes the script for a shell to a file, as a user would."""

    def write(shell):
        assert main(["completion", shell]) == 0
        file = tmp_path / "_sublevel"
        file.write_text(capsys.readouterr().out, encoding="utf-8")
        return file

    return write


def completed_by_bash(file, *words):
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {file}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _sublevel; printf '%s\\n' "
        f'"${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, cwd=file.parent)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_choices_and_files(script):
    file = script("bash")
    (file.parent / "run.db").touch()
    assert set(completed_by_bash(file, "sublevel", "")) == {*NAMES, "--help", "--version"}
    assert completed_by_bash(file, "sublevel", "min") == ["minimize"]
    assert completed_by_bash(file, "sublevel", "minimize", "--sig") == ["--sigma0"]
    assert set(completed_by_bash(file, "sublevel", "minimize", "--on-error", "r")) == {"raise", "retry"}
    assert completed_by_bash(file, "sublevel", "completion", "z") == ["zsh"]
    assert completed_by_bash(file, "sublevel", "show", "ru") == ["run.db"]
    assert completed_by_bash(file, "sublevel", "show", "run.db", "--j") == ["--json"]
    assert completed_by_bash(file, "sublevel", "minimize", "--command", "./sim", "--sig") == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(script):
    file = script("zsh")
    done = subprocess.run(["zsh", "-fn", file], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    code = f"autoload -U compinit; compinit -D; source {file}; print $_comps[sublevel]"
    done = subprocess.run(["zsh", "-fc", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("_sublevel\n", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(script):
    file = script("fish")

    def offered(line):
        done = subprocess.run(
            ["fish", "-Nc", f"source {file}; complete -C '{line}'"], capture_output=True, text=True, check=True
        )
        return [words.split("\t")[0] for words in done.stdout.splitlines()]

    assert set(offered("sublevel ")) >= set(NAMES)
    assert offered("sublevel minimize --sig") == ["--sigma0"]
    assert offered("sublevel minimize --on-error re") == ["retry"]
    assert set(offered("sublevel completion ")) == {"bash", "zsh", "fish"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_every_option_is_in_the_script(script, shell):
    text = script(shell).read_text(encoding="utf-8")
    for command in COMMANDS:
        assert command.name in text
        for option in command.arguments:
            assert not option.is_option or option.name.removeprefix("--") in text


def test_another_shell_is_refused(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["completion", "csh"])
    assert exit.value.code == 2
    assert "invalid choice: 'csh'" in capsys.readouterr().err
