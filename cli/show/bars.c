/* SPDX-License-Identifier: BSD-3-Clause */
/* See bars.h. A column of a curve always shows at least its lowest mark, so that a value at the
 * bottom of the range differs from no value. */
#include "cli/show/bars.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/text.h"

static const char *const left_eighth[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
static const char *const low_eighth[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const low_ascii[] = {" ", ".", ".", ":", ":", "|", "|", "#", "#"};

static size_t append(char *out, size_t cap, size_t n, const char *mark)
{
    size_t bytes = strlen(mark);

    if (n + bytes + 1 > cap)
        return n;
    memcpy(out + n, mark, bytes + 1);
    return n + bytes;
}

static double clip(double v, double low, double high)
{
    if (!(v > low))
        return low;
    return v < high ? v : high;
}

size_t dp_bar(char *out, size_t cap, double share, size_t columns)
{
    size_t eighths = (size_t)lround(clip(share, 0, 1) * (double)columns * 8), n = 0, used = 0;

    if (cap)
        out[0] = '\0';
    if (!dp_text_is_utf8())
        eighths = (eighths + 4) / 8 * 8;
    for (; eighths >= 8; eighths -= 8, used++)
        n = append(out, cap, n, dp_text_is_utf8() ? left_eighth[8] : "#");
    if (eighths) {
        append(out, cap, n, left_eighth[eighths]);
        used++;
    }
    return used;
}

void dp_bar_rest(char *out, size_t cap, size_t columns)
{
    size_t n = 0;

    if (cap)
        out[0] = '\0';
    while (columns--)
        n = append(out, cap, n, dp_text_is_utf8() ? "·" : ".");
}

void dp_curve_row(char *out, size_t cap, const double *value, size_t n, double low, double high, size_t row,
                  size_t rows)
{
    const char *const *mark = dp_text_is_utf8() ? low_eighth : low_ascii;
    double below = (double)(rows - 1 - row) * 8;
    size_t used = 0;

    if (cap)
        out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        double range = high - low, eighths = 1;

        if (isfinite(value[i]) && range > 0)
            eighths = 1 + clip((value[i] - low) / range, 0, 1) * (double)(rows * 8 - 1);
        if (!isfinite(value[i]))
            eighths = 0;
        used = append(out, cap, used, mark[(int)lround(clip(eighths - below, 0, 8))]);
    }
}

void dp_sparkline(char *out, size_t cap, const double *value, size_t n)
{
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        if (isfinite(value[i])) {
            low = fmin(low, value[i]);
            high = fmax(high, value[i]);
        }
    }
    dp_curve_row(out, cap, value, n, low, high, 0, 1);
}
