"""SPU's runtimes, links and programs: the only importer of spu.

In topological order: library, link, values, region, runtimes.
"""
