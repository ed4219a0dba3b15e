/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout as other programs take it. */
#ifndef DP_POLICIES_SAVING_NOTATION_H
#define DP_POLICIES_SAVING_NOTATION_H

#include <jansson.h>
#include <stdint.h>

struct dp_notation {
    const uint32_t *count;         /* [n_stages] layers of each stage, in order; of all chunks of all devices where there are several */
    uint32_t n_stages, chunks;     /* chunks of a device */
    uint32_t n_layers, first, end; /* blocks are layers first .. end - 1 */
};

/* An object of texts, null where a program cannot be told this layout:
 *   megatron_layout     --pipeline-model-parallel-layout of Megatron-Core (common/run/megatron.h)
 *   megatron_options    --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers: all stages between have
 *                       equally many blocks
 *   deepspeed_parts     what _partition_layers() of a PipelineModule sets self.parts to: where each stage begins in the list of
 *                       layers, and the end
 *   torch_split_points  modules at whose beginning torch.distributed.pipelining splits: "layers.8" is block 8, "head" what is
 *                       behind the last block
 * New reference. */
json_t *dp_notation_json(const struct dp_notation *n);

#endif
