"""Leaks of the gateway: plain text is there, and must leave it as shares alone."""

from .leak import Leak

GUARD = "gateway/test_guard.py::"
UNLOGGED = (GUARD + "test_no_text_is_logged",)

GATEWAY = (
    Leak(
        "gateway: the log has the text of an error that nobody expected",
        "gateway/app.py",
        (
            (
                '_LOGGER.error("a request failed: %s", place_of(error))',
                '_LOGGER.error("a request failed: %s", error)',
            ),
        ),
        "libraries quote what they were given",
        UNLOGGED,
    ),
    Leak(
        "gateway: the log has what was asked",
        "gateway/embeddings.py",
        (
            (
                "    deadline = time.monotonic()",
                '    import logging\n    logging.getLogger("ditto").info(str(texts))\n'
                "    deadline = time.monotonic()",
            ),
        ),
        "texts go to whoever keeps the log",
        UNLOGGED,
    ),
    Leak(
        "gateway: a refusal quotes what was sent",
        "gateway/requests.py",
        (
            ("include_input=False", "include_input=True"),
            ("first['msg']}.\"", 'first}."'),
        ),
        "texts go wherever a program writes the errors it gets",
        ("gateway/test_parsing.py::test_a_refusal_shows_nothing_of_the_texts",),
    ),
    Leak(
        "gateway: any name leads to it",
        "gateway/guard.py",
        (
            (
                'headers.get("host", "")) not in self._hosts',
                'headers.get("host", "")) == 0',
            ),
        ),
        "a page of the web whose name is made to lead here asks and reads the answers",
        (GUARD + "test_only_known_names_are_answered",),
    ),
)
