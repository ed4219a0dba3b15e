/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for people: foreign bytes made harmless, width on the screen, numbers with few digits. */
#ifndef DP_CLI_SHOW_TEXT_H
#define DP_CLI_SHOW_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Call once after setlocale(): may UTF-8 be written? `ascii` (option --ascii) says no whatever the locale. */
void dp_text_setup(bool ascii);
bool dp_text_is_utf8(void);

/* Copy `in` to out with everything that could steer a terminal written as \xHH: control bytes, C1
 * controls, bytes that are no UTF-8, and the characters that change the direction of text. Where the
 * terminal takes no UTF-8 every byte above 0x7e is written so. Always ends with a NUL; cuts between
 * characters. returns: out. */
char *dp_text_clean(char *out, size_t cap, const char *in);

/* Write `in` as character data of XML; control bytes, which XML cannot hold, are left out. */
void dp_text_xml(FILE *out, const char *in);

/* Columns that a clean string takes on the screen; escape sequences are not expected in it. */
size_t dp_text_width(const char *text);

/* Bytes of `text` that fit into `columns`, never half a character. */
size_t dp_text_fit(const char *text, size_t columns);

/* Each writes into out[cap] and returns out. A value that is not finite becomes "-". */
char *dp_text_count(char *out, size_t cap, double value);   /* 18 204; 1.25 M from a million on */
char *dp_text_bytes(char *out, size_t cap, double bytes);   /* 512 MiB */
char *dp_text_seconds(char *out, size_t cap, double s);     /* 41.2 ms, 3.1 s, 4:05, 1:04:05 */
char *dp_text_percent(char *out, size_t cap, double share); /* 0.421 -> 42.1 % */

/* Edit distance with swaps of neighbours, for "did you mean". */
size_t dp_text_distance(const char *a, const char *b);

#endif
