"""Which commands of the README are timed; ``tests/docs`` types all of them."""

from benchmarks.first_answer import _commands
from tests.benchmarks.test_commands import benchmark


def test_the_commands_up_to_an_answer_are_those_of_the_readme() -> None:
    install, *others = _commands("ditto run")
    assert install.startswith("pip install")
    assert others[-1].startswith("ditto run")
    assert _commands("pip install") == [install]


def test_a_command_that_is_not_there_is_refused_before_anything_is_typed() -> None:
    done = benchmark("first_answer", "--until", "ditto fly")
    assert done.returncode == 4
    assert "no command that begins with 'ditto fly'" in done.stderr
