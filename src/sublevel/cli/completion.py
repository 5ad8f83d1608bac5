"""Completion scripts for shells, generated from the parsers of the commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

SHELLS = ("bash", "zsh", "fish")


@dataclass(slots=True)
class Argument:
    """An option or a positional argument."""

    flags: tuple[str, ...]  # empty if it is positional
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(slots=True)
class Command:
    """A command; it replaces an ArgumentParser and records its arguments."""

    name: str
    help: str
    arguments: list[Argument] = field(default_factory=list[Argument])

    def add_argument(self, *names: str, **details: Any) -> None:
        """Record an argument, as `ArgumentParser.add_argument`."""
        flags = tuple(name for name in names if name.startswith("-"))
        takes_value = details.get("action") is None
        choices = tuple(map(str, details.get("choices") or ()))
        self.arguments.append(Argument(flags, details.get("help", ""), takes_value, choices))

    def set_defaults(self, **_: Any) -> None:
        """Ignored: not needed for completion."""

    @property
    def options(self) -> list[Argument]:
        """The options, including --help."""
        return [
            *(argument for argument in self.arguments if argument.flags),
            Argument(("--help",), "show help", takes_value=False),
        ]

    @property
    def words(self) -> list[str]:
        """The choices of positional arguments."""
        return [word for argument in self.arguments if not argument.flags for word in argument.choices]


class Commands:
    """Replaces the subparsers of argparse and records the commands."""

    def __init__(self) -> None:
        self.all: list[Command] = []

    def add_parser(self, name: str, *, help: str, **_: Any) -> Command:
        """Record a command, as `add_parser` of argparse."""
        self.all.append(Command(name, help))
        return self.all[-1]


def collect_commands(adders: Iterable[Callable[[Any], None]]) -> list[Command]:
    """The commands that functions add to a parser."""
    commands = Commands()
    for add in adders:
        add(commands)
    return commands.all


def completion_script(shell: str, commands: Sequence[Command]) -> str:
    """The completion script of `sublevel` for a shell."""
    return {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[shell](commands)


BASH = """# bash completion of sublevel
_sublevel() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"
    local options="" words="" choices=0 word
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@names@ --help --version" -- "$current"))
        return
    fi
    for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
        if [ "$word" = --command ]; then
            COMPREPLY=($(compgen -f -- "$current") $(compgen -c -- "$current"))
            return
        fi
    done
    case "$command" in
@options@
    esac
    case "$command:$previous" in
@values@
    esac
    if [ "$choices" -eq 1 ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    elif [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -o filenames -F _sublevel sublevel
"""


def bash_script(commands: Sequence[Command]) -> str:
    """A function that bash calls for each completion."""
    options = [
        f'        {command.name}) options="{_flags(command)}"; words="{" ".join(command.words)}" ;;'
        for command in commands
    ]
    values = [
        f'        {command.name}:{flag}) words="{" ".join(option.choices)}"; choices=1 ;;'
        for command in commands
        for option in command.options
        for flag in option.flags
        if option.choices
    ]
    names = " ".join(command.name for command in commands)
    return (
        BASH.replace("@names@", names).replace("@options@", "\n".join(options)).replace("@values@", "\n".join(values))
    )


def _flags(command: Command) -> str:
    return " ".join(flag for option in command.options for flag in option.flags)


def zsh_script(commands: Sequence[Command]) -> str:
    """A function of zsh's completion system."""
    names = "\n".join(f"        {_zsh(command.name + ':' + _colons(command.help))}" for command in commands)
    cases = "\n".join(
        f"        {command.name}) _arguments {' '.join(_zsh_arguments(command))} ;;" for command in commands
    )
    return f"""#compdef sublevel
_sublevel() {{
    local -a commands
    commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe -t commands command commands
        _arguments '--help[show help]' '--version[show the version]'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
if [ "$funcstack[1]" = _sublevel ]; then
    _sublevel "$@"
else
    compdef _sublevel sublevel
fi
"""


def _zsh_arguments(command: Command) -> Iterable[str]:
    for option in command.options:
        for flag in option.flags:
            text = re.sub(r"([\[\]\\])", r"\\\1", option.help)
            yield _zsh(f"{flag}[{text}]" + (f":value:{_zsh_values(option)}" if option.takes_value else ""))
    positional = [argument for argument in command.arguments if not argument.flags]
    yield from (_zsh(f":argument:{_zsh_values(argument)}") for argument in positional)
    yield _zsh("*::argument:_files")


def _zsh_values(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else "_files"


def _colons(text: str) -> str:
    return text.replace(":", r"\:")


def _zsh(text: str) -> str:
    """Text in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def fish_script(commands: Sequence[Command]) -> str:
    """Lines that fish executes."""
    lines = [
        "# fish completion of sublevel",
        "complete -c sublevel -n __fish_use_subcommand -f -l help -d 'show help'",
        "complete -c sublevel -n __fish_use_subcommand -f -l version -d 'show the version'",
    ]
    for command in commands:
        lines.append(f"complete -c sublevel -n __fish_use_subcommand -f -a {command.name} -d {_fish(command.help)}")
    for command in commands:
        within = f"complete -c sublevel -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            value = (
                (f" -x -a {_fish(' '.join(option.choices))}" if option.choices else " -r") if option.takes_value else ""
            )
            lines.append(f"{within} -l {option.flags[0].removeprefix('--')}{value} -d {_fish(option.help)}")
        if command.words:
            lines.append(f"{within} -f -a {_fish(' '.join(command.words))}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    """Text in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
