/* See simulate.h. Every stage has a fixed list of 2m operations; an operation starts when the one
 * before it has ended and its message has arrived. Stages run as far as they can, in turn of a work
 * list, so each operation is visited once: O(stages * microbatches). */
#include "policies/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOT_YET UINT64_MAX

struct sim {
    const struct dp_sim_in *in;
    uint64_t *fwd_at;    /* [S*m] when the input of F(s, j) is there */
    uint64_t *bwd_at;    /* [S*m] when the gradient for B(s, j) is there */
    uint64_t *now;       /* [S] end of the stage's last operation */
    uint64_t *link_fwd;  /* [S] boundary s -> s+1 is free again */
    uint64_t *link_bwd;  /* [S] boundary s -> s-1 is free again */
    uint32_t *n_fwd, *n_bwd; /* [S] operations done */
    uint32_t *deep;      /* [S] most in flight */
    uint32_t *todo;      /* [S] work list */
    uint8_t *is_listed;  /* [S] */
    uint32_t n_todo;
};

/* Does the schedule want a forward next? 1F1B: S-1-s forwards first, then one backward after each
 * forward. GPipe: all forwards first. */
static bool wants_forward(const struct sim *m, uint32_t s)
{
    uint32_t ahead = m->n_fwd[s] - m->n_bwd[s], mb = m->in->microbatches;

    if (m->n_fwd[s] == mb)
        return false;
    if (m->in->schedule == DP_SCHED_GPIPE)
        return true;
    return ahead < m->in->n_stages - s;
}

static uint64_t arrival(const struct sim *m, uint64_t *link, uint64_t ready)
{
    uint64_t start = ready > *link ? ready : *link;

    *link = start + m->in->boundary_ns;
    return *link + m->in->latency_ns;
}

static void list(struct sim *m, uint32_t s)
{
    if (!m->is_listed[s]) {
        m->is_listed[s] = 1;
        m->todo[m->n_todo++] = s;
    }
}

/* Run the stage's next operation. returns false when its message is not there yet or all is done. */
static bool step(struct sim *m, uint32_t s)
{
    uint32_t mb = m->in->microbatches, last = m->in->n_stages - 1, j;
    const struct dp_sim_stage *g = &m->in->stage[s];
    uint64_t at;

    if (wants_forward(m, s)) {
        j = m->n_fwd[s];
        at = m->fwd_at[(size_t)s * mb + j];
        if (at == NOT_YET)
            return false;
        m->now[s] = (at > m->now[s] ? at : m->now[s]) + g->fwd_ns;
        m->n_fwd[s]++;
        if (m->n_fwd[s] - m->n_bwd[s] > m->deep[s])
            m->deep[s] = m->n_fwd[s] - m->n_bwd[s];
        if (s < last) {
            m->fwd_at[(size_t)(s + 1) * mb + j] = arrival(m, &m->link_fwd[s], m->now[s]);
            list(m, s + 1);
        } else {
            m->bwd_at[(size_t)s * mb + j] = m->now[s];
        }
        return true;
    }
    j = m->n_bwd[s];
    if (j == mb || (at = m->bwd_at[(size_t)s * mb + j]) == NOT_YET)
        return false;
    m->now[s] = (at > m->now[s] ? at : m->now[s]) + g->bwd_ns;
    m->n_bwd[s]++;
    if (s > 0) {
        m->bwd_at[(size_t)(s - 1) * mb + j] = arrival(m, &m->link_bwd[s], m->now[s]);
        list(m, s - 1);
    }
    return true;
}

static void *carve(char **at, size_t n, size_t size)
{
    void *p = *at;

    *at += n * size;
    return p;
}

/* One allocation for all arrays, widest first. */
static void *sim_init(struct sim *m, const struct dp_sim_in *in)
{
    size_t s = in->n_stages, cells = s * in->microbatches;
    void *block = calloc(1, (2 * cells + 3 * s) * sizeof(uint64_t) + 4 * s * sizeof(uint32_t) + s);
    char *at = block;

    if (!block)
        return NULL;
    m->in = in;
    m->n_todo = 0;
    m->fwd_at = carve(&at, cells, sizeof(uint64_t));
    m->bwd_at = carve(&at, cells, sizeof(uint64_t));
    m->now = carve(&at, s, sizeof(uint64_t));
    m->link_fwd = carve(&at, s, sizeof(uint64_t));
    m->link_bwd = carve(&at, s, sizeof(uint64_t));
    m->n_fwd = carve(&at, s, sizeof(uint32_t));
    m->n_bwd = carve(&at, s, sizeof(uint32_t));
    m->deep = carve(&at, s, sizeof(uint32_t));
    m->todo = carve(&at, s, sizeof(uint32_t));
    m->is_listed = carve(&at, s, 1);
    memset(m->fwd_at, 0xff, cells * sizeof(uint64_t));
    memset(m->bwd_at, 0xff, cells * sizeof(uint64_t));
    memset(m->fwd_at, 0, in->microbatches * sizeof(uint64_t)); /* the first stage has its data */
    return block;
}

static uint64_t finish(const struct sim *m, struct dp_sim_stage_out *out)
{
    const struct dp_sim_in *in = m->in;
    uint64_t end = 0, opt = 0;

    for (uint32_t s = 0; s < in->n_stages; s++) {
        end = m->now[s] > end ? m->now[s] : end;
        opt = in->stage[s].opt_ns > opt ? in->stage[s].opt_ns : opt;
    }
    end += opt;
    for (uint32_t s = 0; out && s < in->n_stages; s++) {
        const struct dp_sim_stage *g = &in->stage[s];

        out[s].busy_ns = in->microbatches * (g->fwd_ns + g->bwd_ns) + g->opt_ns;
        out[s].bubble = end ? 1.0 - (double)out[s].busy_ns / (double)end : 0.0;
        out[s].in_flight = m->deep[s];
        out[s].mem_bytes = g->state_bytes + m->deep[s] * g->act_bytes;
    }
    return end;
}

int dp_simulate(const struct dp_sim_in *in, struct dp_sim_stage_out *out, uint64_t *iteration_ns,
                struct dp_err *err)
{
    struct sim m;
    void *block;

    if (in->n_stages < 1 || in->microbatches < 1)
        return dp_err_set(err, DP_EINVAL, "simulation of %u stages and %u microbatches", in->n_stages,
                          in->microbatches);
    block = sim_init(&m, in);
    if (!block)
        return dp_err_set(err, DP_ENOMEM, "simulation of %u stages and %u microbatches: out of memory",
                          in->n_stages, in->microbatches);
    list(&m, 0);
    while (m.n_todo) {
        uint32_t s = m.todo[--m.n_todo];

        m.is_listed[s] = 0;
        while (step(&m, s))
            ;
    }
    *iteration_ns = finish(&m, out);
    free(block);
    return 0;
}

static void stage_of(const struct dp_policy_in *in, const struct dp_layout *l, uint32_t d,
                     struct dp_sim_stage *out)
{
    double speed = in->device[d].speed;
    uint64_t fwd = 0, bwd = 0, opt = 0;

    memset(out, 0, sizeof *out);
    for (uint32_t i = l->cut[d]; i < l->cut[d + 1]; i++) {
        fwd += in->layer[i].fwd_ns;
        bwd += in->layer[i].bwd_input_ns + in->layer[i].bwd_weight_ns;
        opt += in->layer_opt_ns ? in->layer_opt_ns[i] : 0;
        out->state_bytes += in->layer[i].state_bytes;
        out->act_bytes += in->layer[i].act_bytes;
    }
    out->fwd_ns = speed == 1.0 ? fwd : (uint64_t)ceil((double)fwd / speed);
    out->bwd_ns = speed == 1.0 ? bwd : (uint64_t)ceil((double)bwd / speed);
    out->opt_ns = speed == 1.0 ? opt : (uint64_t)ceil((double)opt / speed);
}

int dp_sim_layout(const struct dp_policy_in *in, const struct dp_layout *layout, struct dp_sim_stage_out *out,
                  uint64_t *iteration_ns, struct dp_err *err)
{
    struct dp_sim_stage *stage = calloc(DP_MAX_WORKERS, sizeof *stage);
    struct dp_sim_in sim = {.schedule = in->schedule, .microbatches = in->microbatches, .stage = stage};
    int rc;

    if (!stage)
        return dp_err_set(err, DP_ENOMEM, "simulation: out of memory");
    for (uint32_t d = 0; d < layout->n_workers; d++)
        if (layout->cut[d + 1] > layout->cut[d])
            stage_of(in, layout, d, &stage[sim.n_stages++]);
    sim.latency_ns = (uint64_t)(in->link_latency_s * 1e9);
    if (in->link_bytes_per_s > 0.0)
        sim.boundary_ns = (uint64_t)((double)in->boundary_bytes / in->link_bytes_per_s * 1e9);
    rc = dp_simulate(&sim, out, iteration_ns, err);
    free(stage);
    return rc;
}
