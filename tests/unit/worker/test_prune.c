/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection is exact: the union over any number of workers is what a full sort of all weights, or of all
 * blocks of any shape, keeps, ties by global index; the last event reaches the final sparsity; what is gone stays
 * gone. */
#include "tests/unit/worker/engine.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "common/bits.h"
#include "kernels/granularity.h"
#include "worker/model/model.h"
#include "worker/model/param.h"

/* Sums over threads: everybody adds, everybody reads, then the first clears. */
struct hub {
    pthread_mutex_t lock;
    pthread_barrier_t barrier;
    uint64_t total[DP_PRUNE_BINS];
};

static int hub_sum(void *arg, uint64_t *counts, uint32_t n, struct dp_err *err)
{
    struct hub *h = arg;

    (void)err;
    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 0; i < n; i++)
        h->total[i] += counts[i];
    pthread_mutex_unlock(&h->lock);
    pthread_barrier_wait(&h->barrier);
    memcpy(counts, h->total, n * sizeof *counts);
    if (pthread_barrier_wait(&h->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        memset(h->total, 0, sizeof h->total);
    pthread_barrier_wait(&h->barrier);
    return 0;
}

struct worker {
    const struct dp_train_config *config;
    struct dp_backend *be;
    struct dp_stage *stage;
    struct hub *hub;
    double target, reached;
    int rc;
    struct dp_err err;
};

static void *prune_worker(void *arg)
{
    struct worker *w = arg;

    w->rc = dp_prune_run(w->stage, NULL, w->config, w->target, hub_sum, w->hub, &w->reached, &w->err);
    return NULL;
}

/* Coarse weights, so that many are equal. */
static void coarsen(struct dp_layer *l)
{
    shake(l, l->index * 77 + 1);
    for (uint32_t i = 0; i < l->n_params; i++)
        for (int64_t k = 0; k < l->param[i].n; k++)
            l->param[i].w[k] = roundf(l->param[i].w[k] * 16.0f) / 16.0f;
}

/* What is left of the model, by global index. */
static void collect(struct worker *w, uint32_t n, uint64_t *kept)
{
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i < dp_stage_n_layers(w[s].stage); i++) {
            struct dp_layer *l = dp_stage_layer(w[s].stage, i);

            for (uint32_t j = 0; j < l->n_params; j++) {
                struct dp_param *p = &l->param[j];
                uint64_t *bits;

                if (!p->prunable)
                    continue;
                bits = dp_param_dup_kept(w[s].be, p, NULL);
                for (int64_t e = 0; e < p->rows * p->cols; e++)
                    if (dp_bits_get(bits, e))
                        dp_bits_set(kept, (int64_t)p->first_global + e);
                free(bits);
            }
        }
}

/* A weight, or a block with the index of its first weight. */
struct ranked {
    float magnitude;
    uint64_t order, global;
    int64_t next; /* to the next row of the block */
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->magnitude != y->magnitude)
        return x->magnitude > y->magnitude ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static float magnitude(const float *w, int64_t block, int64_t next)
{
    double sum = 0.0; /* of coarse numbers: exact in any order */

    for (int64_t r = 0; r < block; r++)
        for (int64_t c = 0; c < dp_block_cols(block); c++)
            sum += (double)w[r * next + c] * (double)w[r * next + c];
    return block == 1 ? fabsf(*w) : (float)sqrt(sum);
}

/* All weights or blocks of the model before anything is pruned, best first. */
static struct ranked *rank_all(const struct dp_train_config *c)
{
    const int64_t block = dp_train_block_rows(c), weights = dp_block_weights(block);
    struct ranked *r = calloc(dp_model_prunable(c), sizeof *r);
    struct dp_backend *be = cpu();
    uint64_t n = 0;

    for (uint32_t i = 0; i < dp_model_layers(c); i++) {
        struct dp_layer *l = layer_at(c, i, be, NULL);

        coarsen(l);
        for (uint32_t j = 0; j < l->n_params; j++) {
            const struct dp_param *p = &l->param[j];

            for (int64_t e = 0; p->prunable && e < p->n / weights; e++) {
                int64_t m = p->cols / dp_block_cols(block);
                int64_t first = e / m * block * p->cols + e % m * dp_block_cols(block);

                r[n] = (struct ranked){magnitude(p->w + first, block, p->cols), n, p->first_global + (uint64_t)first,
                                       p->cols};
                n++;
            }
        }
        dp_layer_destroy(l);
    }
    assert_true(n == dp_model_prunable(c) / (uint64_t)weights);
    qsort(r, n, sizeof *r, by_rank);
    dp_backend_destroy(be);
    return r;
}

static void run_workers(const struct dp_train_config *c, uint32_t n, double crossover,
                        const struct ranked *rank)
{
    static const double targets[] = {0.25, 0.25, 0.6, 0.1, 0.9, 0.999};
    const int64_t rows = dp_train_block_rows(c), cols = dp_block_cols(rows);
    const uint64_t block = (uint64_t)(rows * cols), weights = dp_model_prunable(c), total = weights / block;
    struct worker w[8] = {0};
    struct hub hub = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct dp_tune tune = tune_at(c, crossover);
    uint64_t left = total;

    pthread_barrier_init(&hub.barrier, NULL, n);
    for (uint32_t s = 0; s < n; s++) {
        w[s].config = c;
        w[s].hub = &hub;
        w[s].be = cpu();
        w[s].stage = stage_of(c, s * dp_model_layers(c) / n, (s + 1) * dp_model_layers(c) / n, w[s].be, &tune);
        for (uint32_t i = 0; i < dp_stage_n_layers(w[s].stage); i++)
            coarsen(dp_stage_layer(w[s].stage, i));
    }
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        uint64_t want = (uint64_t)llround((1 - targets[t]) * (double)total);
        uint64_t *kept = calloc(dp_bits_words((int64_t)weights) + 1, sizeof *kept);
        pthread_t thread[8];

        left = want < left ? want : left;
        for (uint32_t s = 0; s < n; s++) {
            w[s].target = targets[t];
            assert_int_equal(pthread_create(&thread[s], NULL, prune_worker, &w[s]), 0);
        }
        for (uint32_t s = 0; s < n; s++) {
            pthread_join(thread[s], NULL);
            if (w[s].rc < 0)
                fail_msg("%s", w[s].err.text);
            assert_true(w[s].reached == 1.0 - (double)(left * block) / (double)weights);
        }
        collect(w, n, kept);
        assert_int_equal(dp_bits_count(kept, (int64_t)weights), left * block);
        for (uint64_t i = 0; i < total; i++)
            for (int64_t e = 0; e < rows * cols; e++)
                if (dp_bits_get(kept, (int64_t)rank[i].global + e / cols * rank[i].next + e % cols) != (i < left))
                    fail_msg("target %g: block %llu in the order, weight %lld", targets[t], (unsigned long long)i,
                             (long long)e);
        free(kept);
    }
    for (uint32_t s = 0; s < n; s++) {
        dp_stage_destroy(w[s].stage);
        dp_backend_destroy(w[s].be);
    }
    pthread_barrier_destroy(&hub.barrier);
}

static void union_equals_a_full_sort(void **state)
{
    static const uint32_t workers[] = {1, 2, 3, 5};
    struct dp_train_config c = tiny_config();
    struct ranked *rank;

    (void)state;
    for (int g = 0; g < DP_N_GRANULARITIES; g++) {
        int64_t block = dp_granularity_at(g);

        c.model.blocks = block < 64 ? 3 : 1;
        c.model.channels = block < 32 ? 12 : block < 128 ? 64 : 128;
        c.model.heads = block < 32 ? 3 : 4;
        snprintf(c.prune.granularity, sizeof c.prune.granularity, "%s", dp_granularity_name(block));
        rank = rank_all(&c);
        for (int i = 0; i < 4; i++) {
            run_workers(&c, workers[i], 1.0, rank); /* bitmaps */
            run_workers(&c, workers[i], 0.4, rank); /* bitmaps, then CSR */
        }
        free(rank);
    }
}

/* A run that goes on with another granularity is told so, dense and sparse; nothing is pruned then. Only a dense matrix
 * can go on with what its blocks consist of. */
static void other_granularity(void **state)
{
    static const char *const names[][2] = {{"weight", "4x1"}, {"4x1", "weight"}, {"4x1", "32x32"}, {"32x32", "4x1"},
                                           {"64x64", "32x32"}, {"32x32", "64x64"}, {"weight", "64x64"}};

    (void)state;
    for (int i = 0; i < 14; i++) {
        const char *first = names[i / 2][0], *second = names[i / 2][1];
        bool is_sparse = i % 2, is_finer = dp_granularity_rows(second) < dp_granularity_rows(first);
        struct dp_train_config c = tiny_config();
        struct dp_backend *be = cpu();
        struct dp_err err = {0};
        struct dp_tune tune;
        struct dp_stage *stage;
        double reached;

        c.model.channels = 64;
        c.model.heads = 4;
        snprintf(c.prune.granularity, sizeof c.prune.granularity, "%s", first);
        tune = tune_at(&c, is_sparse ? 0.4 : 1.0);
        stage = stage_of(&c, 0, dp_model_layers(&c), be, &tune);
        if (dp_prune_run(stage, NULL, &c, 0.5, NULL, NULL, &reached, &err) < 0)
            fail_msg("%s", err.text);
        snprintf(c.prune.granularity, sizeof c.prune.granularity, "%s", second);
        if (is_finer && !is_sparse) {
            assert_int_equal(dp_prune_run(stage, NULL, &c, 0.7, NULL, NULL, &reached, &err), 0);
        } else {
            assert_int_equal(dp_prune_run(stage, NULL, &c, 0.7, NULL, NULL, &reached, &err), -1);
            assert_int_equal(err.code, DP_EINVAL);
            assert_non_null(strstr(err.text, "prune.granularity"));
            assert_non_null(strstr(err.text, second));
        }
        dp_stage_destroy(stage);
        dp_backend_destroy(be);
    }
}

/* What a pruned block still takes: weights, gradients, moments, pattern and plan. */
static void memory_follows_density(void **state)
{
    static const double most[DP_N_GRANULARITIES] = {1.0 / 5.0, 1.0 / 6.5, 1.0 / 6.5, 1.0 / 6.5, 1.0 / 6.5};

    (void)state;
    for (int g = 0; g < DP_N_GRANULARITIES; g++) {
        struct dp_train_config c = tiny_config();
        struct dp_backend *be = cpu();
        struct dp_err err = {0};
        struct dp_tune tune;
        struct dp_stage *stage;
        size_t dense, left;

        c.model.blocks = 1;
        c.model.channels = 768;
        snprintf(c.prune.granularity, sizeof c.prune.granularity, "%s", dp_granularity_name(dp_granularity_at(g)));
        tune = tune_at(&c, 0.4);
        stage = stage_of(&c, 1, 2, be, &tune);
        shake(dp_stage_layer(stage, 0), 5); /* equal shares for all matrices */
        dense = dp_layer_state_bytes(dp_stage_layer(stage, 0));
        if (dp_prune_run(stage, NULL, &c, 0.9, NULL, NULL, NULL, &err) < 0)
            fail_msg("%s", err.text);
        left = dp_layer_state_bytes(dp_stage_layer(stage, 0));
        print_message("# %s: %.1f MB dense, 1/%.2f of that at 90 %% zeros\n", c.prune.granularity, (double)dense * 1e-6,
                      (double)dense / (double)left);
        assert_true((double)left <= most[g] * (double)dense);
        dp_stage_destroy(stage);
        dp_backend_destroy(be);
    }
}

static bool is_due(const struct dp_train_config *c, uint64_t step, double *target)
{
    struct dp_scheme_order o = {0};

    if (dp_scheme_prune.is_on(c))
        dp_scheme_prune.decide(c, &(struct dp_scheme_in){.step = step}, &o);
    *target = o.is_due ? o.target : *target;
    return o.is_due;
}

static void schedule(void **state)
{
    struct dp_train_config c = tiny_config();
    double s = -1, before = -1;
    int events = 0;

    (void)state;
    assert_false(is_due(&c, 0, &s));
    c.prune.begin = 10;
    c.prune.end = 45;
    c.prune.every = 10;
    c.prune.initial = 0.1;
    c.prune.final = 0.9;
    for (uint64_t step = 0; step < 100; step++) {
        if (!is_due(&c, step, &s))
            continue;
        assert_true(step == 10 || step == 20 || step == 30 || step == 40 || step == 45);
        assert_true(s > before);
        if (step == 10)
            assert_true(s == 0.1);
        if (step == 30)
            assert_true(fabs(s - (0.9 - 0.8 * 0.125)) < 1e-12);
        before = s;
        events++;
    }
    assert_int_equal(events, 5);
    assert_true(s == 0.9); /* exactly */
    c.prune.begin = 45;
    assert_true(is_due(&c, 45, &s));
    assert_true(s == 0.9);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static uint64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %llu", &pages), 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What pruning frees is the kernel's again, not the heap's. Event by event, as the smaller arrays of each could fill
 * the holes of the one before. */
static void the_kernel_has_it_back(void **state)
{
    struct dp_train_config c = tiny_config();
    struct dp_backend *be = cpu();
    struct dp_stage *stage;
    struct dp_tune tune;
    struct hub hub = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct dp_err err = {0};
    uint64_t resident, bytes;

    (void)state;
    c.model.channels = 384;
    tune = tune_at(&c, 0.0);
    pthread_barrier_init(&hub.barrier, NULL, 1);
    stage = stage_of(&c, 1, 3, be, &tune);
    resident = resident_bytes();
    bytes = dp_stage_bytes(stage, NULL);
    for (int percent = 30; percent <= 90; percent += 20)
        if (dp_prune_run(stage, NULL, &c, percent / 100.0, hub_sum, &hub, NULL, &err) < 0)
            fail_msg("%s", err.text);
    bytes -= dp_stage_bytes(stage, NULL);
    malloc_trim(0);
    assert_true(bytes > 20 << 20);
    resident -= resident_bytes();
    if ((int64_t)resident < (int64_t)(bytes / 10 * 7))
        fail_msg("%.1f MiB freed, %.1f MiB given back", (double)bytes / 1048576, (double)(int64_t)resident / 1048576);
    dp_stage_destroy(stage);
    pthread_barrier_destroy(&hub.barrier);
    dp_backend_destroy(be);
}
#endif

static const struct CMUnitTest tests[] = {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    cmocka_unit_test(the_kernel_has_it_back),
#endif
    cmocka_unit_test(union_equals_a_full_sort),
    cmocka_unit_test(other_granularity),
    cmocka_unit_test(memory_follows_density),
    cmocka_unit_test(schedule),
};
TEST_MAIN("prune", tests)
