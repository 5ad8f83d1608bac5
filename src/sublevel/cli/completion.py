"""Completion scripts for shells, generated from the arguments of the commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class Argument(Protocol):
    """What a script needs to know of an argument."""

    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def is_option(self) -> bool: ...
    @property
    def takes_value(self) -> bool: ...
    @property
    def choices(self) -> Sequence[str]: ...


class Command(Protocol):
    """What a script needs to know of a command."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def arguments(self) -> Sequence[Argument]: ...


class Help(NamedTuple):
    """The option that every command has."""

    name: str = "--help"
    help: str = "show help"
    is_option: bool = True
    takes_value: bool = False
    choices: Sequence[str] = ()


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
    options, values = list[str](), list[str]()
    for command in commands:
        flags, words = " ".join(option.name for option in _options(command)), " ".join(_words(command))
        options.append(f'        {command.name}) options="{flags}"; words="{words}" ;;')
        for option in filter(lambda option: option.choices, _options(command)):
            words = " ".join(option.choices)
            values.append(f'        {command.name}:{option.name}) words="{words}"; choices=1 ;;')
    names = " ".join(command.name for command in commands)
    script = BASH.replace("@names@", names)
    return script.replace("@options@", "\n".join(options)).replace("@values@", "\n".join(values))


def _options(command: Command) -> list[Argument]:
    """The options, including --help."""
    return [*(one for one in command.arguments if one.is_option), Help()]


def _words(command: Command) -> list[str]:
    """The choices of positional arguments."""
    return [word for one in command.arguments if not one.is_option for word in one.choices]


def zsh_script(commands: Sequence[Command]) -> str:
    """A function of zsh's completion system."""
    summaries = {command.name: command.summary.replace(":", r"\:") for command in commands}
    names = "\n".join(f"        {_zsh(f'{name}:{summary}')}" for name, summary in summaries.items())
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
    for option in _options(command):
        text = re.sub(r"([\[\]\\])", r"\\\1", option.help)
        yield _zsh(f"{option.name}[{text}]" + (f":value:{_zsh_values(option)}" if option.takes_value else ""))
    yield from (_zsh(f":argument:{_zsh_values(one)}") for one in command.arguments if not one.is_option)
    yield _zsh("*::argument:_files")


def _zsh_values(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else "_files"


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
        lines.append(f"complete -c sublevel -n __fish_use_subcommand -f -a {command.name} -d {_fish(command.summary)}")
    for command in commands:
        within = f"complete -c sublevel -n '__fish_seen_subcommand_from {command.name}'"
        for option in _options(command):
            values = f" -x -a {_fish(' '.join(option.choices))}" if option.choices else " -r"
            value = values if option.takes_value else ""
            lines.append(f"{within} -l {option.name.removeprefix('--')}{value} -d {_fish(option.help)}")
        if words := _words(command):
            lines.append(f"{within} -f -a {_fish(' '.join(words))}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    """Text in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
