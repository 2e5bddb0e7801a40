"""Training: teachers, and what students need, with JAX and optax on our own models.

In topological order: settings, settings_file, examples, batches, progress, objective,
optimizer, event_file, log, checkpoints, loop, supervised, byte_pairs, data, source,
finetune, distillation, stages, quantized, measure, card, distill.
"""
