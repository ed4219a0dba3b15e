/* A whole file in memory. */
#ifndef DP_COMMON_SLURP_H
#define DP_COMMON_SLURP_H

#include <stddef.h>

#include "common/err.h"

/* path "-" is stdin. text: = the bytes and a NUL behind them; the caller frees it.
 * returns 0, or -1 with DP_EIO (cannot be read) or DP_EINVAL (more than most_bytes). */
int dp_slurp(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err);

#endif
