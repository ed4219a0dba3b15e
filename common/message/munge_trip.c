/* SPDX-License-Identifier: BSD-3-Clause */
/* See munge_trip.h. */
#include "common/message/munge_trip.h"

#include <munge.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int dp_munge_round_trip(const char *socket, struct dp_err *err)
{
    munge_ctx_t ctx = munge_ctx_create();
    char *credential = NULL;
    void *data = NULL;
    int bytes = 0, rc = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    munge_err_t e;

    if (!ctx)
        return dp_err_set(err, DP_ENOMEM, "munge: out of memory");
    if (socket && *socket)
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, socket);
    e = munge_encode(&credential, ctx, "dynpipe", 7);
    if (e == EMUNGE_SUCCESS)
        e = munge_decode(credential, ctx, &data, &bytes, &uid, &gid);
    if (e != EMUNGE_SUCCESS)
        rc = dp_err_set(err, DP_EIO, "%s", munge_ctx_strerror(ctx) ? munge_ctx_strerror(ctx) : munge_strerror(e));
    else if (bytes != 7 || memcmp(data, "dynpipe", 7) != 0 || uid != geteuid())
        rc = dp_err_set(err, DP_EAUTH, "the credential came back changed");
    free(credential);
    free(data);
    munge_ctx_destroy(ctx);
    return rc;
}
