/* SPDX-License-Identifier: BSD-3-Clause */
/* See screen.h. */
#include "cli/show/screen.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t dp_screen_columns(void)
{
    struct winsize size = {0};
    const char *text = getenv("COLUMNS");
    unsigned long v = text ? strtoul(text, NULL, 10) : 0;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return v >= 20 && v <= 1000 ? v : 100;
}
