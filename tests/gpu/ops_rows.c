/* SPDX-License-Identifier: BSD-3-Clause */
/* Embedding, layer norm, the head, and tokens that are out of range. */
#include "kernels/reference.h"
#include "tests/gpu/ops.h"

struct shape {
    int64_t n, t, c, v;
};

/* What all tokens are like: any, one and the same, or few. */
enum mix { ANY, SAME, FEW, N_MIXES };

static uint32_t *make_tokens(struct shape s, enum mix mix)
{
    uint32_t *tokens = calloc((size_t)s.n + 1, sizeof *tokens);
    uint64_t state = 77 + ops_seed;

    if (!tokens)
        ops_die("out of memory");
    for (int64_t i = 0; i < s.n; i++)
        tokens[i] = mix == SAME ? (uint32_t)s.v - 1 : (uint32_t)(ops_random(&state) % (uint64_t)(mix == FEW && s.v > 2 ? 2 : s.v));
    return tokens;
}

static void each(void (*body)(const void *shape), const struct shape *shapes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        static char text[96];

        snprintf(text, sizeof text, "n %lld, t %lld, c %lld, v %lld", (long long)shapes[i].n, (long long)shapes[i].t,
                 (long long)shapes[i].c, (long long)shapes[i].v);
        ops_case = text;
        ops_twice(body, &shapes[i]);
    }
}

static void embedding_mix(struct shape s, enum mix mix)
{
    uint32_t *tokens = make_tokens(s, mix);
    struct array at = array_of(tokens, s.n, sizeof *tokens), wte = array_noise(s.v * s.c, "wte");
    struct array wpe = array_noise(s.t * s.c, "wpe"), y = array_nan(s.n * s.c), dy = array_noise(s.n * s.c, "dy");
    struct array dwte = array_noise(s.v * s.c, "dwte"), dwpe = array_noise(s.t * s.c, "dwpe");
    double *wted = array_double(&wte), *wped = array_double(&wpe), *yd = new_doubles(y.n), *dyd = array_double(&dy);
    double *dwted = array_double(&dwte), *dwped = array_double(&dwpe);

    OP(embedding, .n = s.n, .t = s.t, .c = s.c, .v = s.v, .y = y.p, .wte = wte.p, .wpe = wpe.p, .tokens = at.p);
    OP(embedding_bwd, .n = s.n, .t = s.t, .c = s.c, .v = s.v, .dwte = dwte.p, .dwpe = dwpe.p, .dy = dy.p, .tokens = at.p);
    dp_ref_embedding_f64(s.n, s.t, s.c, yd, wted, wped, tokens);
    dp_ref_embedding_bwd_f64(s.n, s.t, s.c, dwted, dwped, dyd, tokens);
    check_floats(&y, yd, TOLERANCE, "y");
    check_floats(&dwte, dwted, TOLERANCE, "dwte");
    check_floats(&dwpe, dwped, TOLERANCE, "dwpe");
    array_drop(&at), array_drop(&wte), array_drop(&wpe), array_drop(&y), array_drop(&dy), array_drop(&dwte), array_drop(&dwpe);
    free(tokens), free(wted), free(wped), free(yd), free(dyd), free(dwted), free(dwped);
}

static void embedding(const void *shape)
{
    for (enum mix mix = ANY; mix < N_MIXES; mix++)
        embedding_mix(*(const struct shape *)shape, mix);
}

/* Up to 2048 tokens are sorted by one block, 4100 take several passes. */
void test_embedding(void)
{
    static const struct shape shapes[] = {{1, 1, 1, 1},     {0, 3, 5, 4},       {6, 3, 33, 5},
                                          {150, 50, 129, 6}, {33, 40, 1, 70000}, {4100, 82, 3, 999}};

    each(embedding, shapes, sizeof shapes / sizeof shapes[0]);
}

static void layernorm_bwd(struct shape s, const struct array *x, const struct array *mean, const struct array *rstd, bool add)
{
    struct array dy = array_noise(s.n * s.c, "dy"), gamma = array_noise(s.c, "gamma"), dgamma = array_noise(s.c, "dgamma");
    struct array dbeta = array_noise(s.c, "dbeta"), dx = add ? array_noise(s.n * s.c, "dx") : array_nan(s.n * s.c);
    double *dyd = array_double(&dy), *xd = array_double(x), *gd = array_double(&gamma), *md = array_double(mean);
    double *rd = array_double(rstd), *dgd = array_double(&dgamma), *dbd = array_double(&dbeta), *dxd = array_double(&dx);

    OP(layernorm_bwd, .n = s.n, .c = s.c, .dx = dx.p, .dgamma = dgamma.p, .dbeta = dbeta.p, .dy = dy.p, .x = x->p,
       .gamma = gamma.p, .mean = mean->p, .rstd = rstd->p, .add_to_dx = add);
    dp_ref_layernorm_bwd_f64(s.n, s.c, dxd, dgd, dbd, dyd, xd, gd, md, rd, add);
    check_floats(&dx, dxd, TOLERANCE, "dx");
    check_floats(&dgamma, dgd, TOLERANCE, "dgamma");
    check_floats(&dbeta, dbd, TOLERANCE, "dbeta");
    array_drop(&dy), array_drop(&gamma), array_drop(&dgamma), array_drop(&dbeta), array_drop(&dx);
    free(dyd), free(xd), free(gd), free(md), free(rd), free(dgd), free(dbd), free(dxd);
}

/* What tiles have where rows have element (i, j); n: tokens that there are. */
static double *in_tiles(const double *y, int64_t n, int64_t c)
{
    double *d = new_doubles(dp_format_elements(DP_TILES, n, c));

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            d[i / DP_TILE * DP_TILE * c + j * DP_TILE + i % DP_TILE] = y[i * c + j];
    return d;
}

static void layernorm(const void *shape)
{
    const struct shape s = *(const struct shape *)shape;
    struct array x = array_noise(s.n * s.c, "x"), gamma = array_noise(s.c, "gamma"), beta = array_noise(s.c, "beta");
    struct array y = array_nan(s.n * s.c), mean = array_nan(s.n), rstd = array_nan(s.n);
    struct array tiles = array_nan(dp_format_elements(DP_TILES, s.n, s.c));
    double *xd = array_double(&x), *gd = array_double(&gamma), *bd = array_double(&beta), *yd = new_doubles(s.n * s.c);
    double *md = new_doubles(s.n), *rd = new_doubles(s.n), *td;

    OP(layernorm, .n = s.n, .c = s.c, .y = tiles.p, .mean = mean.p, .rstd = rstd.p, .x = x.p, .gamma = gamma.p,
       .beta = beta.p, .y_format = DP_TILES);
    OP(layernorm, .n = s.n, .c = s.c, .y = y.p, .mean = mean.p, .rstd = rstd.p, .x = x.p, .gamma = gamma.p, .beta = beta.p);
    dp_ref_layernorm_f64(s.n, s.c, yd, md, rd, xd, gd, bd);
    td = in_tiles(yd, s.n, s.c);
    check_floats(&y, yd, TOLERANCE, "y");
    check_floats(&tiles, td, TOLERANCE, "y in tiles"); /* padding that is no number is no 0 */
    check_floats(&mean, md, TOLERANCE, "mean");
    check_floats(&rstd, rd, TOLERANCE, "rstd");
    layernorm_bwd(s, &x, &mean, &rstd, false);
    layernorm_bwd(s, &x, &mean, &rstd, true);
    array_drop(&x), array_drop(&gamma), array_drop(&beta), array_drop(&y), array_drop(&mean), array_drop(&rstd);
    array_drop(&tiles);
    free(xd), free(gd), free(bd), free(yd), free(md), free(rd), free(td);
}

/* 64 tokens are a run of the sums over tokens; from 8193 on runs are longer. */
void test_layernorm(void)
{
    static const struct shape shapes[] = {{1, 1, 1, 1},   {0, 1, 3, 1},   {7, 1, 33, 1},  {65, 1, 129, 1},
                                          {200, 1, 5, 1}, {9, 1, 768, 1}, {8200, 1, 2, 1}};

    each(layernorm, shapes, sizeof shapes / sizeof shapes[0]);
}

#define SCALE 0.25f

/* `which`: 0 the loss only, 1 +=, 2 =. */
static void head_case(struct shape s, int which)
{
    uint32_t *targets = make_tokens(s, ANY);
    struct array at = array_of(targets, s.n, sizeof *targets), x = array_noise(s.n * s.c, "x"), w = array_noise(s.v * s.c, "w");
    struct array dx = array_nan(s.n * s.c), dw = which == 1 ? array_noise(s.v * s.c, "dw") : array_nan(s.v * s.c), loss;
    double *xd = array_double(&x), *wd = array_double(&w), *dxd = new_doubles(dx.n), *dwd = array_double(&dw);
    double *lossd = new_doubles(s.n), *none = new_doubles(s.n);

    for (int64_t i = 0; i < s.n; i++)
        none[i] = NAN;
    loss = array_of(none, s.n, sizeof *none);
    for (int64_t i = 0; which == 2 && i < dw.n; i++)
        dwd[i] = 0.0;
    for (int64_t i = 0; !which && i < dx.n; i++)
        dxd[i] = NAN;
    OP(head, .n = s.n, .c = s.c, .v = s.v, .loss = loss.p, .dx = which ? dx.p : NULL, .dw = which ? dw.p : NULL, .x = x.p,
       .w = w.p, .targets = at.p, .scale = SCALE, .overwrite = which == 2);
    if (!dp_ref_head_f64(s.n, s.c, s.v, lossd, which ? dxd : NULL, dwd, xd, wd, targets, (double)SCALE))
        ops_die("out of memory");
    check_doubles(&loss, lossd, TOLERANCE, "loss");
    check_floats(&dx, dxd, TOLERANCE, "dx");
    check_floats(&dw, dwd, TOLERANCE, "dw");
    array_drop(&at), array_drop(&x), array_drop(&w), array_drop(&dx), array_drop(&dw), array_drop(&loss);
    free(targets), free(xd), free(wd), free(dxd), free(dwd), free(lossd), free(none);
}

static void head(const void *shape)
{
    for (int which = 0; which < 3; which++)
        head_case(*(const struct shape *)shape, which);
}

/* A logit that is no number is in the loss of its token, wherever it stands, and in no other: token 0 has a NaN, 1 not. */
static void head_nan(const void *unused)
{
    float x[2] = {NAN, 0.0f}, w[600] = {0};
    const uint32_t targets[2] = {3, 3};
    const double want[2] = {NAN, log(600.0)};

    (void)unused;
    ops_case = "a logit is no number";
    for (int at = -1; at < 600; at += 149) { /* -1: all of them */
        struct array ax, aw, targeted = array_of(targets, 2, sizeof *targets), loss = array_of(want, 2, sizeof *want);

        x[0] = at < 0 ? NAN : INFINITY; /* inf - inf where the weight is 1 */
        w[at < 0 ? 0 : at] = 1.0f;
        x[1] = 0.0f;
        ax = array_of(x, 2, sizeof *x), aw = array_of(w, 600, sizeof *w);
        OP(head, .n = 2, .c = 1, .v = 600, .loss = loss.p, .x = ax.p, .w = aw.p, .targets = targeted.p);
        check_doubles(&loss, want, 1e-7, "loss");
        array_drop(&ax), array_drop(&aw), array_drop(&targeted), array_drop(&loss);
        w[at < 0 ? 0 : at] = 0.0f;
    }
}

void test_head(void)
{
    static const struct shape shapes[] = {{1, 1, 1, 1}, {3, 1, 5, 2}, {0, 1, 4, 6}, {20, 1, 33, 515}, {66, 1, 16, 70}, {7, 1, 24, 1100}};

    each(head, shapes, sizeof shapes / sizeof shapes[0]);
    ops_twice(head_nan, NULL);
}

/* A token that there is not: the operation returns, the next call that waits names it, and so does every one behind it. */
static void late_error(const char *want, void (*op)(const struct array *tokens, struct array *a))
{
    const uint32_t tokens[5] = {0, 2, 9, 1, 8};
    struct dp_err err = {.code = DP_OK};
    struct array at, a[4];
    void *p;

    ops_case = want;
    ops_be.ops->close(&ops_be);
    if (ops_be.ops->open(&ops_be, 0, 1, &err) < 0)
        ops_die("%s", err.text);
    at = array_of(tokens, 5, sizeof *tokens);
    for (int i = 0; i < 4; i++)
        a[i] = array_noise(40, "a");
    op(&at, a);
    for (int i = 0; i < 3; i++) {
        err = (struct dp_err){.code = DP_OK};
        if ((i == 1 ? ops_be.ops->alloc(&ops_be, 4, &p, &err) : ops_be.ops->sync(&ops_be, &err)) != -1)
            ops_fail("%s: nothing was said", want);
        else if (err.code != DP_EINVAL || !strstr(err.text, want))
            ops_fail("it said \"%s\" instead of \"%s\"", err.text, want);
    }
    array_drop(&at);
    for (int i = 0; i < 4; i++)
        array_drop(&a[i]);
}

static void bad_embedding(const struct array *at, struct array *a)
{
    OP(embedding, .n = 5, .t = 5, .c = 4, .v = 8, .y = a[0].p, .wte = a[1].p, .wpe = a[2].p, .tokens = at->p);
    OP(embedding, .n = 2, .t = 5, .c = 4, .v = 8, .y = a[0].p, .wte = a[1].p, .wpe = a[2].p, .tokens = at->p);
}

static void bad_embedding_bwd(const struct array *at, struct array *a)
{
    OP(embedding_bwd, .n = 5, .t = 5, .c = 4, .v = 8, .dwte = a[0].p, .dwpe = a[1].p, .dy = a[2].p, .tokens = at->p);
}

static void bad_head(const struct array *at, struct array *a)
{
    struct array loss = array_of((const double[5]){0}, 5, sizeof(double));

    OP(head, .n = 5, .c = 4, .v = 8, .loss = loss.p, .dx = a[0].p, .dw = a[1].p, .x = a[2].p, .w = a[3].p, .targets = at->p,
       .scale = 1.0f);
    array_drop(&loss);
}

void test_late_errors(void)
{
    late_error("embedding: token 9 at 2, the vocabulary has 8", bad_embedding);
    late_error("embedding_bwd: token 9 at 2, the vocabulary has 8", bad_embedding_bwd);
    late_error("head: target 9 at 2, the vocabulary has 8", bad_head);
}
