"""A party as a service between organisations: ``ditto party serve``.

In topological order: config, logs, metrics, operators, queue, lane, library, calls,
handlers, links, host. Needs the extra ``serve``.
"""
