/* SPDX-License-Identifier: BSD-3-Clause */
/* See node_name.h. */
#include "common/slurm/node_name.h"

#include <string.h>

#define LONGEST 63 /* bytes: node_name.h says why */

bool dp_is_node_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n >= 1 && n <= LONGEST && name[n] == '\0' && name[0] != '.' && name[0] != '-';
}
