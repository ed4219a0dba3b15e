#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One run on whole nodes: starts on 4, may end on 2. What it gives back, the next job gets.
#
#   sbatch train.sh [RUN.conf]
#
#SBATCH --job-name=dynpipe-train
#SBATCH --nodes=4 --ntasks-per-node=1 --exclusive --time=08:00:00
#SBATCH --no-kill
#SBATCH --dynpipe=release --dynpipe-min-gpus=2 --dynpipe-max-slowdown=5

# A node that the job gives back takes its task along, and a worker that leaves early is no failure.
exec srun --no-kill --kill-on-bad-exit=0 dynpipe-worker "${1:-gpt-prune.conf}"
