/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes of devices, from the command line and from a file. */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/slurp.h"
#include "policies/graph/classes/classes.h"
#include "policies/graph/read/object.h"

static const char classes_format[] = "dynpipe classes";
enum { FILE_VERSION = 1 };

static bool is_name(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.:", text[i]))
            return false;
    return n > 0 && n < DP_CLASSES_NAME && isalpha((unsigned char)text[0]);
}

/* A name that another class has? */
static bool is_known(const struct dp_classes *c, const char *name)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (!strcmp(c->of[i].name, name))
            return true;
    return false;
}

/* ---- text ---- */

bool dp_classes_is_text(const char *text)
{
    const char *x = strchr(text, 'x');

    return strchr(text, '/') || (x && isalpha((unsigned char)x[1]));
}

/* "8xa100" of n bytes. */
static int take_item(const char *text, size_t n, struct dp_classes *out)
{
    struct dp_device_class *d = &out->of[out->n];
    char *x;
    unsigned long devices = isdigit((unsigned char)*text) ? strtoul(text, &x, 10) : 0;
    size_t digits = devices ? (size_t)(x - text) : 0;

    if (devices < 1 || devices > DP_CLASSES_DEVICES - dp_classes_devices(out) || digits >= n || *x != 'x' ||
        !is_name(x + 1, n - digits - 1))
        return -1;
    *d = (struct dp_device_class){.devices = (uint32_t)devices, .speed = 1, .accel_bytes = UINT64_MAX};
    memcpy(d->name, x + 1, n - digits - 1);
    return is_known(out, d->name) ? -1 : 0;
}

int dp_classes_parse_text(const char *text, struct dp_classes *out, struct dp_err *err)
{
    *out = (struct dp_classes){.n = 0};
    for (const char *at = text;;) {
        size_t n = strcspn(at, ",");

        if (out->n == DP_CLASSES_MOST || take_item(at, n, out) < 0)
            return dp_err_set(err, DP_EINVAL,
                              "'%.*s': expected up to %u classes of devices, each of another name and %u devices at most together, like "
                              "8xa100,8xt4",
                              (int)(n < 40 ? n : 40), at, DP_CLASSES_MOST, DP_CLASSES_DEVICES);
        out->n++;
        if (!at[n])
            return 0;
        at += n + 1;
    }
}

/* ---- files ---- */

static int take_class(const struct dp_object_reader *r, const char *at, const json_t *o, struct dp_classes *out)
{
    static const char *const keys[] = {"name", "devices", "speed", "bytes_per_s", "memory_bytes", NULL};
    struct dp_device_class *d = &out->of[out->n];
    double devices, bytes = 0, most = DP_CLASSES_DEVICES - dp_classes_devices(out);

    *d = (struct dp_device_class){.accel_bytes = UINT64_MAX};
    if (dp_object_check_keys(r, at, o, keys) < 0 || dp_object_text(r, at, o, "name", sizeof d->name, d->name) < 0 ||
        dp_object_real(r, at, o, "devices", 1, most, &devices) < 0 || dp_object_real(r, at, o, "speed", 1e-6, 1e6, &d->speed) < 0 ||
        dp_object_real(r, at, o, "bytes_per_s", 1, 1e18, &d->bytes_per_s) < 0)
        return -1;
    if (devices != floor(devices))
        return dp_object_fail(r, at, "devices", "expected a whole number");
    if (!is_name(d->name, strlen(d->name)))
        return dp_object_fail(r, at, "name", "expected a letter, then letters, digits, '-', '_', '.' and ':'");
    if (is_known(out, d->name))
        return dp_object_fail(r, at, "name", "another class has it");
    if (json_object_get(o, "memory_bytes")) {
        if (dp_object_real(r, at, o, "memory_bytes", 1, 1e18, &bytes) < 0)
            return -1;
        d->accel_bytes = (uint64_t)bytes;
    }
    d->devices = (uint32_t)devices;
    return 0;
}

int dp_classes_parse(const char *name, const char *text, size_t bytes, struct dp_classes *out, struct dp_err *err)
{
    static const char *const keys[] = {"format", "version", "between_bytes_per_s", "classes", NULL};
    struct dp_err own;
    const struct dp_object_reader r = {name, err ? err : &own};
    json_t *doc = dp_object_load(&r, text, bytes, DP_CLASSES_MAX_FILE, classes_format, FILE_VERSION);
    json_t *list = json_object_get(doc, "classes"), *v;
    int rc = doc ? dp_object_check_keys(&r, "", doc, keys) : -1;
    size_t i;

    *out = (struct dp_classes){.n = 0};
    if (rc == 0)
        rc = dp_object_real(&r, "", doc, "between_bytes_per_s", 1, 1e18, &out->between_bytes_per_s);
    if (rc == 0 && (json_array_size(list) < 1 || json_array_size(list) > DP_CLASSES_MOST))
        rc = dp_object_fail(&r, "", "classes", "expected an array with 1 to 8 classes");
    json_array_foreach(list, i, v)
    {
        char at[32];

        snprintf(at, sizeof at, "classes[%zu]", i);
        if (rc == 0)
            rc = take_class(&r, at, v, out);
        if (rc == 0)
            out->n++;
    }
    json_decref(doc);
    return rc;
}

int dp_classes_read(const char *path, struct dp_classes *out, struct dp_err *err)
{
    size_t bytes;
    char *text;
    int rc;

    *out = (struct dp_classes){.n = 0};
    if (dp_slurp(path, DP_CLASSES_MAX_FILE, &text, &bytes, err) < 0)
        return -1;
    rc = dp_classes_parse(path, text, bytes, out, err);
    free(text);
    return rc;
}
