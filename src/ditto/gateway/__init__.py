"""OpenAI's HTTP API on the client's own machine, answered by three parties.

Plain text ends here: the gateway tokenises, shares, opens and samples through whatever
``client.Answering`` it is given. It loads neither jax nor SPU.

In topological order: errors, json_body, parameters, requests, stops, metrics, guard,
admission, work, context, event_stream, replies, embeddings, generation, models, app,
server, deployment.
"""
