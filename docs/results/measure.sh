#!/usr/bin/env bash
# Makes lan.json, wan.json and the report here: about two hours on two cores, as root (for
# the networks). Rows are added one by one, so what is cut off can be gone on with.
set -euo pipefail
cd "$(dirname "$0")/../.."

here=docs/results
row() { python -m benchmarks.inference --json "$here/$1.json" --network "$1" "${@:2}"; }

# The pairs, each in one run.
row lan --models bert-base --profiles puma,ditto --repeat 2
row wan --models bert-base --profiles puma --depth 2
row wan --models bert-base --profiles ditto --repeat 2
row lan --models gpt2-base --profiles puma --depth 2 --repeat 2
row lan --models gpt2-base --profiles ditto --repeat 3
row wan --models gpt2-base --profiles puma --depth 2
row wan --models gpt2-base --profiles ditto --repeat 2

# The others, on one network.
row lan --models bert-base --profiles spu,paper,mpcformer,mpcformer-2relu --depth 2
row lan --models gpt2-base --profiles paper --depth 2 --repeat 3

# Lengths and batches.
for network in lan wan; do
    for seq in 32 64 256; do
        row $network --models bert-base --profiles ditto --seq $seq --repeat 2
        row $network --models bert-base --profiles puma --seq $seq --depth 2
    done
    for batch in 2 4 8; do
        row $network --models bert-base --profiles ditto --batch $batch
    done
done
for batch in 2 4; do
    row lan --models bert-base --profiles puma --batch $batch --depth 2
    row wan --models bert-base --profiles puma --batch $batch --depth 2
done
row lan --models bert-base --profiles puma --batch 8 --depth 2

python -m benchmarks.report $here/lan.json $here/wan.json $here/lan_before.json $here/wan_before.json --out $here/report
