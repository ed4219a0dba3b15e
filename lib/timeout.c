/* SPDX-License-Identifier: BSD-3-Clause */
/* See timeout.h. */
#include "lib/timeout.h"

#include <stdlib.h>

#include "common/log.h"

uint64_t dp_timeout_from_env_ns(const char *name, uint64_t fallback_ns)
{
    const char *text = getenv(name);
    char *end;
    double s;

    if (!text || !text[0])
        return fallback_ns;
    s = strtod(text, &end);
    if (*end || !(s > 0 && s <= 86400)) {
        dp_warn("%s=%s is not a number of seconds from 0 to 86400; using %g", name, text, (double)fallback_ns / 1e9);
        return fallback_ns;
    }
    return (uint64_t)(s * 1e9);
}
