/* SPDX-License-Identifier: BSD-3-Clause */
/* See save.h. */
#include "cli/show/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Half a picture is none. But a device, or a link to one, is nobody's to remove. */
static void remove_half(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(path);
}

int dp_show_save(const char *path, char *text, size_t bytes, struct dp_err *err)
{
    FILE *f = text ? fopen(path, "we") : NULL;
    int rc = 0;

    if (!text)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
    if (!f || fwrite(text, 1, bytes, f) != bytes)
        rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (f && fclose(f) != 0 && rc == 0)
        rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (f && rc < 0)
        remove_half(path);
    free(text);
    return rc;
}
