"""Measurements that are not part of the package, each with a ``--help`` of its own.

The paper's tables, its baselines, and emulated networks:

    python -m benchmarks.inference       whole models, several profiles, on a network
    python -m benchmarks.report          their results as the paper's tables and figure
    python -m benchmarks.layer           one BERT encoder layer in several profiles
    python -m benchmarks.protocols       every protocol: ours, the paper's and SPU's
    python -m benchmarks.matmul          our matmul beside SPU's
    python -m benchmarks.links           our links beside SPU's
    python -m benchmarks.kernels         local products by XLA and by our C kernels

What a person waits for:

    python -m benchmarks.first_answer    from nothing to a first answer, as README says
    python -m benchmarks.everyday        the first answer, the second, and a warm one
    python -m benchmarks.weight          what each extra weighs, installed and imported
    python -m benchmarks.pictures        what a command prints, as a picture

Three parties of ``ditto party serve`` on this machine, under load:

    python -m benchmarks.soak            many questions: all right, and nothing grows
    python -m benchmarks.chaos           parties killed, stopped and cut off
    python -m benchmarks.throughput      answers a second, by how many ask at once
    python -m benchmarks.service         the same inference as a service, and without

Correctness and the compiler:

    python -m benchmarks.ordinary_texts  right answers on texts nothing is calibrated on
    python -m benchmarks.embeddings      embeddings beside sentence-transformers' own
    python -m benchmarks.safety          wrong answers: does the range check see each?
    python -m benchmarks.check_cost      what the range check costs a model
    python -m benchmarks.audit           who is caught by proofs of products; their cost
    python -m benchmarks.plans           bytes, rounds and answers of plans, compared
    python -m benchmarks.ranges          which ranges are proven, caught, or sampled
    python -m benchmarks.compiling       seconds to compile a model of a known size
    python -m benchmarks.spu_cost        the cost table of SPU's operations

They run from the repository's folder, with the extra named bench installed. What a
model of yours costs on your machine says ``ditto bench MODEL_DIR``.
"""
