/* SPDX-License-Identifier: BSD-3-Clause */
/* See run_files.h. */
#include "tests/unit/worker/run_files.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void run_files_text(const char *dir)
{
    char path[160];
    uint32_t x = 1;
    FILE *f;

    snprintf(path, sizeof path, "%s/text", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 20000; i++) {
        x = x * 1664525u + 1013904223u;
        fputc("etaoin shrdlu"[(x >> 16) % 13], f);
    }
    assert_int_equal(fclose(f), 0);
}

int run_files_losses(const char *path, int steps, double *loss)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    int n = 0;

    assert_non_null(f);
    for (int i = 0; i <= steps; i++)
        loss[i] = -1;
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL), *l = json_object_get(o, "loss");
        json_int_t i = json_integer_value(json_object_get(o, "step"));

        if (l) {
            assert_in_range(i, 1, steps);
            if (loss[i] >= 0)
                assert_true(memcmp(&loss[i], &(double){json_real_value(l)}, sizeof(double)) == 0);
            loss[i] = json_real_value(l);
            n++;
        }
        json_decref(o);
    }
    fclose(f);
    return n;
}

int run_files_events(const char *path, const char *event, int step, char *text)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    int n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(o, "event")), *its = json_string_value(json_object_get(o, "text"));

        if (name && !strcmp(name, event) && json_integer_value(json_object_get(o, "step")) == step) {
            n++;
            if (text)
                snprintf(text, 4096, "%s", its ? its : "");
        }
        json_decref(o);
    }
    fclose(f);
    return n;
}
