/* SPDX-License-Identifier: BSD-3-Clause */
/* See site.h. What cannot be told is allowed here: the daemon decides at the start of the job. */
#include "config.h" /* _GNU_SOURCE: memrchr */

#include "spank_plugin/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf_scan.h"
#include "common/conf/site_defaults.h"

enum { MAX_PARTITIONS = 64 };

/* Values of section run, and of each partition that has its own; "" and a negative number: not given. */
struct scan {
    struct dp_site run;
    struct {
        char name[64];
        struct dp_site own;
    } partition[MAX_PARTITIONS];
    unsigned n_partitions;
};

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; n && (p = strstr(p, name)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

/* "12.5": strtod would follow the user's locale. */
static double number_of(const char *text)
{
    double value = 0, unit = 1;

    if (!*text || text[strspn(text, "0123456789.")] || strlen(text) > 12)
        return -1;
    for (; *text && *text != '.'; text++)
        value = value * 10 + (*text - '0');
    for (text += *text == '.'; *text >= '0' && *text <= '9'; text++)
        value += (unit /= 10) * (*text - '0');
    return value;
}

static void take(void *arg, const struct dp_conf_found *f)
{
    struct scan *s = arg;
    struct dp_site *l = &s->run;
    char *name = NULL;

    if (!strcmp(f->section, "partitions")) {
        if (f->entry < 1 || f->entry > MAX_PARTITIONS)
            return;
        l = &s->partition[f->entry - 1].own;
        name = s->partition[f->entry - 1].name;
        for (; s->n_partitions < f->entry; s->n_partitions++)
            s->partition[s->n_partitions].own.max_slowdown = -1;
    } else if (strcmp(f->section, "run") != 0) {
        return;
    }
    if (name && !strcmp(f->name, "name"))
        snprintf(name, sizeof s->partition[0].name, "%.63s", f->value);
    else if (!strcmp(f->name, "policies") && strlen(f->value) < sizeof l->policies)
        snprintf(l->policies, sizeof l->policies, "%s", f->value);
    else if (!strcmp(f->name, "max_slowdown"))
        l->max_slowdown = number_of(f->value);
}

/* Add what one partition allows; what it says nothing about is section run's. */
static void allow(struct dp_site *out, const struct dp_site *l, const struct dp_site *run)
{
    const char *policies = l->policies[0] ? l->policies : run->policies;
    double slowdown = l->max_slowdown >= 0 ? l->max_slowdown : run->max_slowdown;
    char name[64];

    if (slowdown > out->max_slowdown)
        out->max_slowdown = slowdown;
    for (const char *p = policies; *p;) {
        size_t n = strcspn(p, ","), used = strlen(out->policies);

        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, p);
        if (*name && !is_listed(out->policies, name) && used + n + 2 < sizeof out->policies)
            snprintf(out->policies + used, sizeof out->policies - used, "%s%s", used ? "," : "", name);
        p += n + (p[n] == ',');
    }
}

void dp_site_scan(const char *text, const char *partitions, struct dp_site *out)
{
    struct scan *s = calloc(1, sizeof *s);
    bool is_any = !partitions || !*partitions, has_others = is_any;

    memset(out, 0, sizeof *out);
    if (!s) {
        out->max_slowdown = 100;
        return;
    }
    snprintf(s->run.policies, sizeof s->run.policies, DP_DEFAULT_POLICIES);
    s->run.max_slowdown = number_of(DP_DEFAULT_MAX_SLOWDOWN);
    dp_conf_scan(text, take, s);
    for (const char *p = is_any ? "" : partitions; *p;) { /* does one of them go by section run? */
        size_t n = strcspn(p, ",");
        bool is_known = false;

        for (unsigned i = 0; i < s->n_partitions; i++)
            is_known |= strlen(s->partition[i].name) == n && !memcmp(s->partition[i].name, p, n);
        has_others |= !is_known;
        p += n + (p[n] == ',');
    }
    if (has_others)
        allow(out, &s->run, &s->run);
    for (unsigned i = 0; i < s->n_partitions; i++)
        if (is_any || is_listed(partitions, s->partition[i].name))
            allow(out, &s->partition[i].own, &s->run);
    free(s);
}

int dp_site_check(const struct dp_site *site, const struct dp_msg_step_start *asked, const char *path, struct dp_err *err)
{
    if (asked->options_set & DP_OPT_POLICY && site->policies[0] && !is_listed(site->policies, asked->policy))
        return dp_err_set(err, DP_EINVAL, "--dynpipe-policy=%s: unknown policy at this site; allowed: %.400s (%s)",
                          asked->policy, site->policies, path);
    if (asked->options_set & DP_OPT_MAX_SLOWDOWN && asked->max_slowdown > site->max_slowdown)
        return dp_err_set(err, DP_EINVAL, "--dynpipe-max-slowdown=%g: this site allows at most %g percent (%s)",
                          asked->max_slowdown, site->max_slowdown, path);
    return 0;
}

/* ---- size ---- */

/* A number at the beginning; 0: none, or beyond any job. */
static uint32_t count_of(const char *text)
{
    unsigned long v = text && *text >= '0' && *text <= '9' ? strtoul(text, NULL, 10) : 0;

    return v < 1000000 ? (uint32_t)v : 0;
}

/* "4", "a100:4", "a100:2,v100:1": the sum. 0: not understood. */
static uint32_t count_gpus(const char *text)
{
    uint32_t sum = 0;

    while (text && *text) {
        size_t n = strcspn(text, ",");
        const char *colon = memrchr(text, ':', n);
        uint32_t k = count_of(colon ? colon + 1 : text);

        if (!k && !colon && !(*text >= '0' && *text <= '9'))
            k = 1; /* a type alone */
        sum += k;
        text += n + (text[n] == ',');
    }
    return sum;
}

/* "gres:gpu:4,gres:license:2", "gpu:a100:4": those that are GPUs. */
static uint32_t count_gres(const char *text)
{
    uint32_t sum = 0;

    while (text && *text) {
        size_t n = strcspn(text, ",");
        const char *name = strncmp(text, "gres", 4) || !strchr(":/", text[4]) ? text : text + 5;
        char one[64];

        snprintf(one, sizeof one, "%.*s", (int)(text + n - name), name);
        if (!strcmp(one, "gpu"))
            sum++;
        else if (!strncmp(one, "gpu:", 4))
            sum += count_gpus(one + 4);
        text += n + (text[n] == ',');
    }
    return sum;
}

/* "3", "2-4", "1-0" (not given). 0: no upper bound. */
static uint32_t most_nodes(const struct dp_asked_size *s)
{
    const char *dash = s->nodes ? strchr(s->nodes, '-') : NULL;
    uint32_t least = count_of(s->nodes), most = dash ? count_of(dash + 1) : least, tasks = count_of(s->ntasks);

    if (s->nodelist && *s->nodelist)
        return 0; /* may name more */
    if (most || !tasks)
        return most;
    return tasks > least ? tasks : least;
}

static void bound(uint32_t *most, uint64_t by)
{
    if (by && (!*most || by < *most))
        *most = (uint32_t)by;
}

uint32_t dp_asked_devices(const struct dp_asked_size *s)
{
    uint32_t most = 0, nodes = most_nodes(s);

    if (s->is_step)
        bound(&most, count_of(s->ntasks));
    if (s->exclusive && strcmp(s->exclusive, "unset") != 0)
        return most; /* whole nodes, with whatever they have */
    bound(&most, count_gpus(s->gpus));
    bound(&most, (uint64_t)nodes * count_gpus(s->gpus_per_node));
    bound(&most, (uint64_t)nodes * count_gres(s->gres));
    bound(&most, (uint64_t)count_of(s->ntasks) * count_gpus(s->gpus_per_task));
    return most;
}
