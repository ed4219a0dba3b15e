/* SPDX-License-Identifier: BSD-3-Clause */
/* See cluster.h: a simulated cluster as JSON; doc/json.md tells the members. */
#include <math.h>
#include <stdio.h>

#include "cli/show/text.h"
#include "cli/simulate/cluster.h"

static void put(json_t *o, const char *key, double value)
{
    json_object_set_new(o, key, isfinite(value) ? json_real(value) : json_null());
}

static void put_count(json_t *o, const char *key, uint64_t value)
{
    json_object_set_new(o, key, json_integer((json_int_t)value));
}

/* Names of files and of a workload file's computer need not be UTF-8; JSON is. */
static void put_text(json_t *o, const char *key, const char *text)
{
    json_t *value = json_string(text);
    char clean[1200];

    json_object_set_new(o, key, value ? value : json_string(dp_text_clean(clean, sizeof clean, text)));
}

static json_t *counts_document(const struct dp_cluster_counts *n)
{
    json_t *o = json_object();

    put_count(o, "records", n->records);
    put_count(o, "parts", n->parts);
    put_count(o, "never_ran", n->never_ran);
    put_count(o, "no_size", n->no_size);
    put_count(o, "too_large", n->too_large);
    put_count(o, "no_limit", n->no_limit);
    put_count(o, "above_limit", n->above_limit);
    put_count(o, "out_of_order", n->out_of_order);
    return o;
}

static json_t *group_document(const struct dp_cluster_case *c, uint32_t i)
{
    const struct dp_cluster_curve *curve = &c->mix.curve[i];
    json_t *o = json_object(), *needs = json_array();

    for (uint32_t k = 0; k < curve->n_steps; k++) {
        json_t *step = json_object();

        put(step, "at", curve->step[k].at);
        put(step, "share", curve->step[k].hold);
        json_array_append_new(needs, step);
    }
    put(o, "share", c->group[i].share);
    put_count(o, "jobs", c->group[i].n_jobs);
    json_object_set_new(o, "run", c->group[i].run[0] ? json_string(c->group[i].run) : json_null());
    put(o, "run_time_factor", curve->stretch);
    json_object_set_new(o, "needs", needs);
    return o;
}

json_t *dp_cluster_document(const struct dp_cluster_case *c)
{
    json_t *o = json_object(), *groups = json_array();
    uint32_t shrinking = 0;

    for (uint32_t i = 0; i < c->n_groups; i++) {
        json_array_append_new(groups, group_document(c, i));
        shrinking += c->group[i].n_jobs;
    }
    put_text(o, "name", c->name);
    put_text(o, "source", c->source);
    put_text(o, "workload", c->workload);
    put_count(o, "nodes", c->machine.nodes);
    put_count(o, "devices_per_node", c->devices_per_node);
    put(o, "release_latency_s", (double)c->machine.latency_ns * 1e-9);
    put_count(o, "jobs", c->mix.n_jobs);
    put_count(o, "dynpipe_jobs", shrinking);
    put(o, "load", c->load);
    put(o, "load_of_workload", c->load_before > 0 ? c->load_before : c->load);
    json_object_set_new(o, "records", c->counts.records ? counts_document(&c->counts) : json_null());
    json_object_set_new(o, "groups", groups);
    return o;
}

static json_t *stats_document(const struct dp_cluster_case *c, const struct dp_cluster_stats *s)
{
    json_t *o = json_object();

    put(o, "wait_mean_s", s->wait_s.mean);
    put(o, "wait_median_s", s->wait_s.median);
    put(o, "wait_p95_s", s->wait_s.p95);
    put(o, "wait_max_s", s->wait_s.max);
    put(o, "wait_dynpipe_mean_s", s->n_shrinking ? s->wait_shrinking_s.mean : NAN);
    put(o, "wait_others_mean_s", s->n_shrinking < s->n_jobs ? s->wait_others_s.mean : NAN);
    put(o, "slowdown_mean", s->slowdown.mean);
    put(o, "slowdown_median", s->slowdown.median);
    put(o, "slowdown_p95", s->slowdown.p95);
    put(o, "turnaround_dynpipe_mean_s", s->n_shrinking ? s->turnaround_shrinking_s : NAN);
    put(o, "makespan_s", s->makespan_s);
    put(o, "held_node_h", s->held_node_s / 3600);
    put(o, "needed_node_h", s->needed_node_s / 3600);
    put(o, "held_device_h", s->held_node_s / 3600 * c->devices_per_node);
    put(o, "needed_device_h", s->needed_node_s / 3600 * c->devices_per_node);
    put(o, "held_percent", 100 * s->held_share);
    put(o, "needed_percent", 100 * s->needed_share);
    return o;
}

/* b - a, member by member. */
static json_t *difference(const json_t *a, const json_t *b)
{
    json_t *o = json_object();
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)b, key, value)
    {
        const json_t *before = json_object_get(a, key);

        put(o, key, json_is_number(value) && json_is_number(before) ? json_number_value(value) - json_number_value(before) : NAN);
    }
    return o;
}

/* What an administrator gains, in a few sentences; also when that is nothing. */
static void verdict(const struct dp_cluster_pair *p, char *out, size_t cap)
{
    const struct dp_cluster_stats *a = &p->stats[0], *b = &p->stats[1];
    double before_s = a->wait_s.mean, gain_s = before_s - b->wait_s.mean, back_h = (a->held_node_s - b->held_node_s) / 3600;
    double sooner_s = a->turnaround_shrinking_s - b->turnaround_shrinking_s;
    char time[32], hours[32], earlier[32], later[32];
    size_t n = 0;

    if (!a->n_shrinking) {
        snprintf(out, cap, "Nothing changes: no job of this mix is a DynPipe job.");
        return;
    }
    dp_text_seconds(time, sizeof time, fabs(gain_s));
    if (before_s < 1)
        n = (size_t)snprintf(out, cap, "Nothing to gain: no job waits here.");
    else if (fabs(gain_s) < 0.01 * before_s)
        n = (size_t)snprintf(out, cap, "Nothing gained: jobs wait as long as before.");
    else
        n = (size_t)snprintf(out, cap, "Jobs wait %s %s on average (%.0f %%).", time, gain_s > 0 ? "less" : "longer",
                             100 * fabs(gain_s) / before_s);
    n += (size_t)snprintf(out + n, cap - n, " Start earlier: %s, later: %s.", dp_text_count(earlier, sizeof earlier, p->moved.earlier),
                          dp_text_count(later, sizeof later, p->moved.later));
    n += (size_t)snprintf(out + n, cap - n, " %s node-hours %s%s.",
                          dp_text_count(hours, sizeof hours, fabs(back_h) >= 99.95 ? round(fabs(back_h)) : fabs(back_h)),
                          back_h >= 0 ? "come back" : "more are held", before_s < 1 && back_h >= 0 ? " that no job asks for" : "");
    if (fabs(sooner_s) >= 1)
        snprintf(out + n, cap - n, " DynPipe jobs end %s %s on average.", dp_text_seconds(time, sizeof time, fabs(sooner_s)),
                 sooner_s > 0 ? "earlier" : "later");
}

json_t *dp_cluster_pair_document(const struct dp_cluster_case *c, const struct dp_cluster_pair *pair)
{
    json_t *o = json_object(), *without = stats_document(c, &pair->stats[0]), *with = stats_document(c, &pair->stats[1]);
    char text[512];

    verdict(pair, text, sizeof text);
    json_object_set_new(o, "scheduler", json_string(dp_cluster_schedulers[pair->scheduler].name));
    json_object_set_new(o, "difference", difference(without, with));
    json_object_set_new(o, "without", without);
    json_object_set_new(o, "with", with);
    put_count(o, "started_earlier", pair->moved.earlier);
    put_count(o, "started_later", pair->moved.later);
    put(o, "earlier_mean_s", pair->moved.earlier_s);
    put(o, "later_mean_s", pair->moved.later_s);
    json_object_set_new(o, "verdict", json_string(text));
    return o;
}
