"""What ``--json`` writes: every field of every command's document.

A line has a path, a type and a meaning. ``[]`` stands for each entry of a list,
``{name}`` for a key that is data, ``?`` behind a path for a field that is there only
where it applies. ``tests/documents.py`` compares this with what commands write.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

TYPES = {
    "text", "true or false", "integer", "number", "bytes", "seconds", "milliseconds",
    "texts", "integers", "numbers", "object", "list",
}  # fmt: skip
"""``or null`` may follow. Units are types: bytes and seconds are numbers."""


@dataclass(frozen=True)
class Field:
    """One field of a document."""

    path: str
    type: str
    meaning: str
    is_optional: bool

    @property
    def keys(self) -> list[str]:
        """The path from the top; ``[]`` is an entry of a list."""
        return [key for key in re.split(r"\.|(?=\[\])", self.path) if key]


_MACHINE = """
machine | object | Seconds of a party's processor.
machine.multiplication | seconds | For a product of two integers.
machine.byte_read | seconds | For a byte of weights.
machine.byte_sent | seconds | For a byte that all parties together send.
machine.spu_byte_sent | seconds | For a byte that SPU sends.
machine.round | seconds | For a round.
"""

_ANSWER = """
text | text | What was asked.
pair? | text | Its second text, of a pair.
label? | text | The likeliest label, of a classifier of texts.
probabilities? | object | Of the labels, the likeliest first.
probabilities.{label}? | number | Between 0 and 1.
tokens? | list | The words with their labels, of a head that labels tokens.
tokens[].word | text | As it stands in the text.
tokens[].label | text | The likeliest.
tokens[].score | number | Its probability.
tokens[].start | integer | Where the word begins in the text, in characters.
tokens[].end | integer | Where it ends.
fills? | list | For every mask the likeliest words, of a head that fills masks.
fills[][].word | text | A word.
fills[][].score | number | Its probability.
fills[][].token | integer | Its token id.
answer? | object | The part of the text that answers a question.
answer.text | text | That part.
answer.score | number | Its probability.
answer.start | integer | Where it begins in the text, in characters.
answer.end | integer | Where it ends.
embedding? | numbers | Of a model that embeds.
logits? | numbers | Of the labels; a row for each token if the head labels tokens.
token_count | integer | Tokens of the whole text.
used_tokens | integer | Those of them that the model was asked about.
in_range | true or false or null | Whether no value left its range, as the parties saw \
it; null if nothing looked.
"""
_BESIDE_FLOAT = """
difference? | number or null | To the float model's answer, relative to its size; null \
if they were not compared, as with `--no-float`.
cosine? | number or null | Of an embedding and the float model's.
doubt? | text or null | Why the answer is not to be trusted.
wide? | true or false | Whether a plan with wide margins answered, as a value had left \
its range.
"""
_RUNS = """
bytes? | bytes | Sent by all parties together, in all runs.
rounds? | integer | One after another, of all runs.
seconds? | seconds | Of all runs together.
uploaded_bytes? | bytes | Keys and shares that the client sent to the parties.
runs? | list | One entry for each time that the parties ran a plan.
runs[].plan | text | Its digest.
runs[].bytes | bytes | Sent by all parties together.
runs[].rounds | integer | One after another.
runs[].seconds | seconds | From the first step to the last.
runs[].in_range | true or false or null | Whether no value left its range.
"""
_PLAN = """
digest | text | SHA-256 of the plan.
profile | text | How it computes: ditto, puma, spu or paper.
steps | integer | How many there are.
spu_regions | integer | Parts that SPU computes.
"""
_RELEASE = """
name | text | What clients ask for, with its version.
owner | text | The identity of who published it.
created | integer | When, in seconds since 1970.
head | text | What the model is for, as Hugging Face calls the task.
max_tokens | integer | The longest text that it takes.
client | text | SHA-256 of the manifest of the client's folder.
parties | texts | SHA-256 of the manifests of the parties' folders, by rank.
plans | texts | Digests of the plans that the owner approves.
"""


def _under(path: str, lines: str) -> str:
    """The same fields inside another."""
    return re.sub(r"^(?=\S)", f"{path}.", lines, flags=re.MULTILINE)


_STATUS = f"""
rank | integer | 0, 1 or 2.
trio | integer | The number of its trio, from 0.
identity | text | Whom its certificate names.
version | text | Its release of Ditto.
agreement | text | The digest of the agreement that it was started with.
boot | text | Another after each start.
state | text | starting, peers verified, models agreed, ready or draining.
peers | object | Its links to the two others.
peers.{{identity}} | true or false | Whether the link is up.
problem | text or null | Why it is not ready, if it knows.
running | integer | Requests that are computed.
waiting | integer | Requests in the queue.
models | list | What it has in its store.
models[].digest | text | Of the release.
models[].agreed | true or false | Whether all three parties have it.
models[].release | object | What the owner published.
{_under("models[].release", _RELEASE)}
time | number | Seconds since 1970, by its clock.
"""
_COST = """
bytes | bytes | Sent by all parties together.
rounds | number | One after another.
seconds | seconds | The median of the timed runs, each of its slowest party.
runs | numbers | Seconds of every timed run.
cpu_seconds | numbers | Processor seconds of every party.
upload_bytes | bytes | Keys and shares that the client sends to the parties.
mean_abs_error | number | The mean absolute difference to the same model in float.
mean_abs_value | number | The mean absolute value in float, to compare it with.
spent? | object | Seconds of the slowest party; not of SPU's profiles.
spent.compute | seconds | Computing.
spent.waiting | seconds | Waiting for messages.
spent.copies | seconds | Copying between forms of arrays.
spent.python | seconds | Between steps.
parts? | list | Steps of one kind in one part of the model; not of SPU's profiles.
parts[].scope | text | The part.
parts[].what | text | The kind.
parts[].ring | text | Bits of the ring, spu32 or spu64 for SPU's, or free.
parts[].bytes | bytes | Sent by all parties together.
parts[].rounds | integer | One after another.
parts[].seconds | seconds | Its share of the slowest party's seconds.
"""
_CERTIFICATE = """
file | text | Where the certificate is.
is_authority | true or false | Whether it may sign others.
identities | texts | `spiffe://` names of whom it names.
hosts | texts | DNS names and addresses at which a party is reached.
expires | text | When, as in ISO 8601.
days_left | number | Until then.
sha256 | text | Of the certificate, to be compared by telephone.
"""
_AGREEMENT = """
file | text | Where the agreement is.
digest | text | Of all that was agreed on.
agreement | object | Its content; see [settings](settings.md#agreement).
"""
_SCORES = """
mode | text | float, simulate or mpc.
examples | integer | How many were scored.
agreement? | number | The share of answers that are the teacher's.
retried? | integer | Examples that a plan with wide margins answered.
overflows? | integer | Examples with a value that left those margins, too.
bytes? | bytes | Of all parties together for an example; the mean.
rounds? | number | The same of rounds.
seconds? | seconds | Of the slowest party; the mean.
{metric}? | number | accuracy, f1, matthews or perplexity.
"""
_COSTS = """
tokens | integer | Of the texts.
bytes | bytes | Of all parties together for an answer.
rounds | number | One after another.
"""
_MILLISECONDS = "\n".join(
    f"{form}_{name}_ms? | milliseconds | {said} of {what}."
    for name, what in (
        ("e2el", "what a whole request takes"),
        ("ttft", "the time to the first token"),
        ("tpot", "the time per token after the first, by request"),
        ("itl", "the time between two tokens"),
    )
    for form, said in (
        ("mean", "The mean"),
        ("median", "The median"),
        ("p99", "The 99th percentile"),
    )
)

_SOURCES = {
    "demo": f"""
answers | list | One for each text.
{_under("answers[]", _ANSWER)}
answers[].float | object | The float model's probabilities.
answers[].float.{{label}} | number | Between 0 and 1.
bytes | bytes | Sent by all parties together for one answer.
rounds | integer | One after another, for one answer.
seconds | seconds | Of one answer.
all_seconds | seconds | Of all of it: starting, preparing, answering.
""",
    "run": f"""
model? | text | The name of the folder; missing with a bundle or `--deployment`, as \
are all fields of cost.
profile? | text | How it was computed.
answers | list | One for each text.
{_under("answers[]", _ANSWER)}
{_under("answers[]", _BESIDE_FLOAT)}
answers[].bucket? | integer | Tokens that the text was padded to.
{_RUNS}
""",
    "generate": f"""
model? | text | The name of the folder; missing with a bundle or `--deployment`, as \
are all fields of cost.
profile? | text | How it was computed.
prompt | text | What the text begins with.
text | text | What follows.
tokens? | integers | The ids of what follows.
in_range | true or false or null | Whether no value left its range.
wide? | true or false | Whether a plan with wide margins answered for a token.
doubts? | object | Tokens that are not to be trusted, by number from 1.
doubts.{{number}} | text | Why.
{_RUNS}
""",
    "export": """
bundle | text | The folder that was written.
bytes | bytes | Of all its files.
""",
    "eval": """
task | text | As `--task`.
mode | text | As `--mode`.
profile | text | As `--profile`.
count | integer | Examples; of several modes those of the last row, as are scores and \
headroom.
scores | object | The figures of the task.
scores.{figure} | number | Such as accuracy, matthews, f1, or the least cosine.
headroom_bits | object | By part of the model, how many doublings its tightest range \
has left.
headroom_bits.{part} | number | Below 0: a value left it.
overflows | texts | Examples with a value that left its range in the simulator.
doubts | texts | Examples whose answer is further from float than it may be.
cut | texts | Examples that were too long.
rows? | list | One for each profile and mode; of tasks with labels.
rows[].profile | text | How it was computed; empty for float.
rows[].mode | text | float, simulate or mpc.
rows[].count | integer | Examples.
rows[].scores | object | The figures of the task.
rows[].scores.{figure} | number | Such as accuracy, matthews or f1.
rows[].intervals | object | Between what each score lies with a confidence of 95 %.
rows[].intervals.{figure} | numbers | The lower and the upper end.
rows[].seconds | seconds | Of an example; the median.
rows[].as_in_float | number or null | The share of labels that are the float model's.
rows[].as_in_simulator | number or null | The share that are the simulator's.
rows[].largest_difference | number or null | Of the parties' logits to the simulator's.
rows[].headroom_bits | number or null | Of the tightest tensor.
rows[].bytes | bytes or null | Sent by all parties together for an example; the mean.
rows[].rounds | number or null | The same of rounds.
rows[].labels | object | What the parties answered, by the number of the example.
rows[].labels.{number} | integer | The label's index.
""",
    "finetune": """
output_dir | text | The folder that was written.
head | text | What the model is for, as Hugging Face calls the task.
parameters | integer | How many numbers the model has.
labels | texts | Of a classifier.
newly_initialized | texts | Tensors that were drawn at random.
train_samples | integer | Examples to learn from; of a language model, tokens.
eval_samples | integer | Examples to evaluate on; of a language model, tokens.
train_samples_cut | integer | Training texts that were cut.
step | integer | The last one that was done.
total_steps | integer | Of the whole run.
best_step | integer or null | Whose parameters were kept.
metric_for_best_model | text or null | What they were chosen by.
eval_{metric}? | number | Scores of the kept parameters: loss, accuracy, ...
train_loss | number or null | At the end.
train_seconds | seconds | Of the training.
seconds_per_step | seconds | In the mean.
stopped_early | true or false | Whether `early_stopping_patience` ended it.
interrupted | true or false | Whether Ctrl-C ended it; the command then ends with 130.
""",
    "distill": f"""
output_dir | text | The folder that was written.
metric | text | What models are compared by.
teacher | object | In float, on all validation examples.
{_under("teacher", _SCORES)}
untrained | object | The student before any training, in the simulator.
{_under("untrained", _SCORES)}
student | list | The finished student in float, in the simulator, by three parties.
{_under("student[]", _SCORES)}
costs | list | Of the student, for each length.
{_under("costs[]", _COSTS)}
teacher_costs | list | Of the teacher.
{_under("teacher_costs[]", _COSTS)}
stages | object | The stages of training.
stages.{{stage}} | object | hidden, logits or quantized.
stages.{{stage}}.step | integer | The last one that was done.
stages.{{stage}}.total_steps | integer | Of the whole stage.
stages.{{stage}}.best_step | integer or null | Whose parameters were kept.
stages.{{stage}}.loss | number or null | At the end.
stages.{{stage}}.seconds | seconds | Of the stage.
stages.{{stage}}.eval_{{metric}}? | number | Scores of the kept parameters.
left_out | list | Stages that made the student no better: not in its weights.
interrupted | true or false | Whether Ctrl-C ended it; the command then ends with 130.
""",
    "verify": """
verdict | text | safe, tight or unsafe.
profile | text | How it was computed.
simulated_texts | integer | Texts that the simulator ran on.
left_a_range | integer | Those of them that left a range, or whose answer parts from \
the float model's.
compared_texts | integer | Texts that float, simulator and parties ran on.
overflows | texts | Those of them that left a range.
agreed | number | The share of the parties' answers that are the float model's.
tightest_bits | number or null | Doublings that the tightest range has left.
ranges | object | How many ranges hold by what.
ranges.{held} | integer | proven, caught or sampled.
parts | list | By part of the model.
parts[].part | text | Its name.
parts[].rms | number | Root of the mean square of its values in float.
parts[].simulator_mean | number or null | Mean difference of the simulator to float.
parts[].simulator_max | number or null | The largest.
parts[].parties_mean | number | Mean difference of the parties to float.
parts[].parties_max | number | The largest.
parts[].headroom_bits | number or null | Doublings that its tightest range has left.
""",
    "doctor": """
{check} | object | What was looked at: python, spu, memory, ...
{check}.ok | true or false | Whether it is well.
{check}.found | text | What is there.
{check}.advice | text | What to do; empty if it is well.
""",
    "doctor --deployment": f"""
identity | text | As whom you asked.
agreement | text | Its digest.
ok | true or false | Whether all parties are ready and agree.
parties | list | Every party of every trio.
parties[].rank | integer | 0, 1 or 2.
parties[].trio | integer | The number of its trio, from 0.
parties[].trust_domain | text | Whose it is.
parties[].ok | true or false | Whether all checks are well.
parties[].checks | list | In the order in which they were made, up to the first that \
failed.
parties[].checks[].name | text | What was looked at, such as TLS or clock.
parties[].checks[].ok | true or false | Whether it is well.
parties[].checks[].found | text | What is there.
parties[].checks[].advice | text | What to do; empty if it is well.
parties[].status | object or null | What the party says of itself.
{_under("parties[].status", _STATUS)}
""",
    "status": f"""
agreement | text | Its digest.
ready | true or false | Whether all parties are.
parties | list | Every party of every trio.
parties[].trio | integer | The number of its trio, from 0.
parties[].rank | integer | 0, 1 or 2.
parties[].trust_domain | text | Whose it is.
parties[].error | text or null | Why it did not answer.
parties[].status | object or null | What the party says of itself.
{_under("parties[].status", _STATUS)}
""",
    "compile": f"""
plans | object | By what they are of: an answer, a first or a further token.
plans.{{plan}} | object | One plan.
plans.{{plan}}.file | text | Where it was written.
{_under("plans.{plan}", _PLAN)}
""",
    "explain": f"""
plans | object | By what they are of: an answer, a first or a further token; plan, of \
a file.
plans.{{plan}} | object | One plan.
{_under("plans.{plan}", _PLAN)}
plans.{{plan}}.parts | object | By part of the model.
plans.{{plan}}.parts.{{part}} | object | A layer, or (rest).
plans.{{plan}}.parts.{{part}}.steps | integer | How many there are.
plans.{{plan}}.parts.{{part}}.bytes | bytes | Sent by all parties together.
plans.{{plan}}.parts.{{part}}.rounds | number | One after another.
""",
    "estimate": f"""
network | object | What was assumed.
network.rtt | seconds | From a party to another and back.
network.bandwidth | number | Bits per second of a party.
{_MACHINE}
audit | text | What the parties prove: off, products, recasts or full.
plans | object | By what they are of: an answer, a first or a further token; plan, of \
a file.
plans.{{plan}} | object | One plan.
plans.{{plan}}.bytes | bytes | Sent by all parties together.
plans.{{plan}}.rounds | number | One after another.
plans.{{plan}}.proof_bytes | bytes | Of proofs, if it is audited; at most.
plans.{{plan}}.proof_rounds | number | Of proofs, at most.
plans.{{plan}}.seconds | seconds | The three that follow together.
plans.{{plan}}.waiting_seconds | seconds | Half a round trip for each round.
plans.{{plan}}.sending_seconds | seconds | The bytes at that bandwidth.
plans.{{plan}}.computing_seconds | seconds | Roughly, on two cores a party.
plans.{{plan}}.party_memory_bytes | bytes | Of each party; roughly.
plans.{{plan}}.weights_bytes | bytes | Shares of the weights at a party.
plans.{{plan}}.digest | text | SHA-256 of the plan.
""",
    "bench model": f"""
versions | object | Of ditto, python and the packages that compute.
versions.{{package}} | text | Its release.
cpu | text | The processor.
cores | integer | How many the machine has.
command | text | What was typed.
rows | list | One.
rows[].model | text | The name of the folder.
rows[].profile | text | How it was computed.
rows[].gelu | text | The profile's GeLU.
rows[].seq | integer | Tokens of a text.
rows[].batch | integer | Texts asked together.
{_under("rows[]", _COST)}
rows[].first_token? | object | Of a model that generates: as the row, which repeats it.
{_under("rows[].first_token", _COST)}
rows[].next_token? | object | Of a model that generates: a further token.
{_under("rows[].next_token", _COST)}
rows[].peak_rss_mb | number | The peak of a party's memory in MB.
rows[].network | object | What the parties spoke over.
rows[].network.name | text | loopback.
rows[].layers | integer | Of the model.
rows[].measured_layers | integer | The same: all were measured.
""",
    "bench machine": f"""
versions | object | Of ditto, python and the packages that compute.
versions.{{package}} | text | Its release.
cpu | text | The processor.
cores | integer | How many the machine has.
{_MACHINE}
probes | list | What was run.
probes[].what | text | A model, and what was computed of it.
probes[].processor_seconds | seconds | Of the party that needed most.
probes[].estimated_seconds | seconds | As the rates explain them.
""",
    "bench serve": f"""
model | text | As `--model`.
num_prompts | integer | As `--num-prompts`.
max_concurrency | integer | As `--max-concurrency`.
request_rate | number or null | Requests per second; null if there was no limit.
completed | integer | Requests that were answered.
failed | integer | Requests that were not.
duration | seconds | From the first request to the last answer.
request_throughput | number | Answers per second.
total_output_tokens? | integer | Of a model that generates.
output_throughput? | number | Tokens per second, of a model that generates.
{_MILLISECONDS}
errors | object | How often requests failed.
errors.{{error}} | integer | By the error.
command | text | What was typed.
""",
    "owner publish": f"""
{_RELEASE}
digest | text | Of the release: of all that runs.
""",
    "owner ls": """
[].name | text | What clients ask for, with its version.
[].owner | text | The identity of who published it.
[].digest | text | Of the release.
[].agreed | true or false | Whether all three parties serve it.
""",
    "pki init": _CERTIFICATE,
    "pki issue": _CERTIFICATE,
    "pki agree": _AGREEMENT,
    "pki show": _CERTIFICATE,
    "pki show deployment.toml": _AGREEMENT,
    "cache ls": """
[].key | text | SHA-256 of all that the plan follows from.
[].label | object | What it is of.
[].label.model | text | The name of the model's folder.
[].label.profile | text | How it computes.
[].label.computation | text | Such as forward, 16 tokens.
[].bytes | bytes | Of the file.
[].used | number | When it was last made or read, in seconds since 1970.
""",
}


def documents() -> dict[str, list[Field]]:
    """The fields of every document, by command."""
    return {name: [*_fields(source)] for name, source in _SOURCES.items()}


def _fields(source: str) -> Iterator[Field]:
    for line in filter(None, source.splitlines()):
        path, kind, meaning = line.split(" | ")
        yield Field(path.removesuffix("?"), kind, meaning, path.endswith("?"))
