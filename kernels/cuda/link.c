/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of another worker's device, by CUDA's IPC.
 *
 * What is shown is the whole block that cudaMalloc took from the driver, and it packs small arrays into one of 2 MiB: so
 * what is shown is of a multiple of that (CUDA's manual, cudaIpcGetMemHandle). Events of other processes are not used: a
 * lane that waited for one of a process that died might wait for ever.
 *
 * That memory cannot be opened is no failure of the device: it lies on another machine or device, in another container, or
 * the system has no IPC. The call itself says so, and nothing else is asked.
 */
#include <string.h>

#include "kernels/cuda/cuda.h"

#define MAGIC 0x44504c31u          /* "DPL1" */
#define UNIT ((size_t)2 << 20)     /* what cudaMalloc takes from the driver at a time */

struct card {
    uint32_t magic, bytes; /* bytes: of this struct */
    cudaIpcMemHandle_t handle;
};
_Static_assert(sizeof(struct card) <= DP_LINK_CARD, "it fits");

/* What a call of IPC returned: 0, or -1 and err. */
static int check(struct dp_cuda *cu, cudaError_t rc, const char *call, const char *what, struct dp_err *err)
{
    if (rc == cudaSuccess || dp_cuda_is_late(rc))
        return dp_cuda_check(cu, rc, call, err);
    dp_cuda_api.GetLastError(); /* forget it */
    return dp_err_set(err, DP_ENOTSUP, "cuda: %s: %s (%s)", what, dp_cuda_api.GetErrorString(rc), dp_cuda_api.GetErrorName(rc));
}

static int show(struct dp_backend *be, void *p, struct dp_link_card *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct card card = {.magic = MAGIC, .bytes = sizeof card};

    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    cu->op = "show";
    if (check(cu, dp_cuda_api.IpcGetMemHandle(&card.handle, p), "IpcGetMemHandle", "this device's memory cannot be shown", err) < 0)
        return -1;
    memset(out, 0, sizeof *out);
    memcpy(out, &card, sizeof card);
    return 0;
}

static int open_shown(struct dp_backend *be, const struct dp_link_card *from, void **out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_block *b;
    struct card card;
    void *p = NULL;

    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    cu->op = "open";
    memcpy(&card, from, sizeof card);
    if (card.magic != MAGIC || card.bytes != sizeof card)
        return dp_err_set(err, DP_ENOTSUP, "cuda: what is to be opened is not memory of this backend");
    b = dp_cuda_new_block(cu, err);
    if (!b || check(cu, dp_cuda_api.IpcOpenMemHandle(&p, card.handle, cudaIpcMemLazyEnablePeerAccess), "IpcOpenMemHandle",
                    "the other device's memory cannot be opened", err) < 0)
        return -1;
    *b = (struct dp_cuda_block){.p = p, .is_opened = true};
    cu->n_blocks++;
    *out = p;
    return 0;
}

static void close_shown(struct dp_backend *be, void *p)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_block *b = p ? dp_cuda_find_block(cu, p) : NULL;

    if (!b || !b->is_opened)
        return;
    if (cu->failure.code == DP_OK)
        cu->op = "close";
    dp_cuda_drop_block(cu, b);
}

const struct dp_backend_link dp_cuda_link = {.unit = UNIT, .show = show, .open = open_shown, .close = close_shown};
