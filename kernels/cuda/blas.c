/* SPDX-License-Identifier: BSD-3-Clause */
/* Dense products by cuBLASLt: kernels/cuda/blas.h. The library counts columns first, so that a row-major c = a b is its
 * c' = b' a' with the same memory. What was chosen for a shape is kept: choosing takes the host far longer than a launch.
 * Alignment is promised for floats only, whatever the addresses are, so that these choose nothing. */
#include "kernels/cuda/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "DYNPIPE_CUDA_PRODUCTS"

/* Toolkits come without its header, too. */
#if defined DP_CUDA_EMU || !__has_include(<cublasLt.h>)
int dp_cuda_blas_open(struct dp_cuda *cu, struct dp_err *err)
{
    const char *wanted = getenv(VARIABLE);

    (void)cu;
    if (wanted && strcmp(wanted, "own") != 0)
        return dp_err_set(err, DP_ENOTSUP, VARIABLE "=%s: this build has products of its own only", wanted);
    return 0;
}

void dp_cuda_blas_close(struct dp_cuda *cu)
{
    (void)cu;
}

int dp_cuda_blas_product(struct dp_cuda *cu, const struct dp_cuda_product *p, void *workspace, struct dp_err *err)
{
    (void)cu, (void)p, (void)workspace, (void)err;
    return 1;
}
#else
#include <cublasLt.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)
#define CANDIDATES 16 /* algorithms that are asked for */
#define SHAPES 256    /* that are remembered */

/* F(name without "cublasLt"): the library's functions that are used. */
#define FUNCTIONS(F)              \
    F(Create)                     \
    F(Destroy)                    \
    F(GetStatusString)            \
    F(Matmul)                     \
    F(MatmulAlgoConfigGetAttribute) \
    F(MatmulAlgoGetHeuristic)     \
    F(MatmulDescCreate)           \
    F(MatmulDescDestroy)          \
    F(MatmulDescSetAttribute)     \
    F(MatmulPreferenceCreate)     \
    F(MatmulPreferenceDestroy)    \
    F(MatmulPreferenceSetAttribute) \
    F(MatrixLayoutCreate)         \
    F(MatrixLayoutDestroy)

/* A product that was met, and what does it. */
struct shape {
    int64_t m, n, k;
    bool a_across, b_across;
    bool has_algorithm; /* that keeps to the rules; if not, the rest is not there */
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

#define MEMBER(f) __typeof__(&cublasLt##f) f;
struct dp_cuda_blas {
    FUNCTIONS(MEMBER)
    void *library;
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t rules;
    int n_shapes;
    struct shape shapes[SHAPES];
};

/* It may be the error of something that was started before: the backend has failed. */
static int failed(struct dp_cuda *cu, cublasStatus_t rc, const char *call, struct dp_err *err)
{
    dp_err_set(&cu->failure, DP_EIO, "cuda: %s: %s (cublasLt%s)", cu->op, cu->blas->GetStatusString(rc), call);
    return dp_cuda_usable(cu, err);
}

#define BLAS(cu, err, f, ...) blas_check(cu, (cu)->blas->f(__VA_ARGS__), #f, err)
static int blas_check(struct dp_cuda *cu, cublasStatus_t rc, const char *call, struct dp_err *err)
{
    return rc == CUBLAS_STATUS_SUCCESS ? 0 : failed(cu, rc, call, err);
}

static int look_up(struct dp_cuda_blas *b, struct dp_err *err)
{
    b->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!b->library)
        return dp_err_set(err, DP_ENOTSUP, VARIABLE "=cublaslt: %s", dlerror());
#define LOOK_UP(f)                                                                                              \
    *(void **)(void *)&b->f = dlsym(b->library, "cublasLt" #f);                                                 \
    if (!b->f)                                                                                                  \
        return dp_err_set(err, DP_ENOTSUP, VARIABLE "=cublaslt: " LIBRARY " has no cublasLt" #f);
    FUNCTIONS(LOOK_UP)
    return 0;
}

static int set_rules(struct dp_cuda *cu, struct dp_err *err)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t bytes = DP_CUDA_BLAS_BYTES;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE, alignment = sizeof(float);

    if (BLAS(cu, err, MatmulPreferenceCreate, &cu->blas->rules) < 0 ||
        BLAS(cu, err, MatmulPreferenceSetAttribute, cu->blas->rules, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
             sizeof bytes) < 0 ||
        BLAS(cu, err, MatmulPreferenceSetAttribute, cu->blas->rules, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             &reductions, sizeof reductions) < 0)
        return -1;
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++)
        if (BLAS(cu, err, MatmulPreferenceSetAttribute, cu->blas->rules, alignments[i], &alignment, sizeof alignment) < 0)
            return -1;
    return 0;
}

int dp_cuda_blas_open(struct dp_cuda *cu, struct dp_err *err)
{
    const char *wanted = getenv(VARIABLE);

    if (!wanted || !strcmp(wanted, "own"))
        return 0;
    if (strcmp(wanted, "cublaslt") != 0)
        return dp_err_set(err, DP_EINVAL, VARIABLE "=%s: own or cublaslt", wanted);
    cu->blas = calloc(1, sizeof *cu->blas);
    if (!cu->blas)
        return dp_err_set(err, DP_ENOMEM, VARIABLE "=cublaslt: out of memory");
    if (look_up(cu->blas, err) < 0 || BLAS(cu, err, Create, &cu->blas->handle) < 0 || set_rules(cu, err) < 0) {
        dp_cuda_blas_close(cu);
        return -1;
    }
    return 0;
}

static void drop_shape(struct dp_cuda_blas *b, struct shape *s)
{
    if (s->what)
        b->MatmulDescDestroy(s->what);
    if (s->a)
        b->MatrixLayoutDestroy(s->a);
    if (s->b)
        b->MatrixLayoutDestroy(s->b);
    if (s->c)
        b->MatrixLayoutDestroy(s->c);
    *s = (struct shape){.m = 0};
}

void dp_cuda_blas_close(struct dp_cuda *cu)
{
    struct dp_cuda_blas *b = cu->blas;

    if (!b)
        return;
    for (int i = 0; i < b->n_shapes; i++)
        drop_shape(b, &b->shapes[i]);
    if (b->rules)
        b->MatmulPreferenceDestroy(b->rules);
    if (b->handle)
        b->Destroy(b->handle);
    if (b->library)
        dlclose(b->library);
    free(b);
    cu->blas = NULL;
}

/* The first of the library's proposals that does not cut k. */
static int choose(struct dp_cuda *cu, struct shape *s, struct dp_err *err)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    cublasStatus_t rc;
    int n = 0;

    rc = cu->blas->MatmulAlgoGetHeuristic(cu->blas->handle, s->what, s->b, s->a, s->c, s->c, cu->blas->rules, CANDIDATES,
                                          found, &n);
    if (rc == CUBLAS_STATUS_NOT_SUPPORTED)
        return 0;
    if (rc != CUBLAS_STATUS_SUCCESS)
        return failed(cu, rc, "MatmulAlgoGetHeuristic", err);
    for (int i = 0; i < n && !s->has_algorithm; i++) {
        uint32_t reduction = 0;
        int32_t parts = 0;
        size_t written;

        if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize > DP_CUDA_BLAS_BYTES)
            continue;
        if (BLAS(cu, err, MatmulAlgoConfigGetAttribute, &found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                 sizeof parts, &written) < 0 ||
            BLAS(cu, err, MatmulAlgoConfigGetAttribute, &found[i].algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                 &reduction, sizeof reduction, &written) < 0)
            return -1;
        s->has_algorithm = parts <= 1 && reduction == CUBLASLT_REDUCTION_SCHEME_NONE;
        s->algorithm = found[i].algo;
    }
    return 0;
}

static int describe(struct dp_cuda *cu, struct shape *s, struct dp_err *err)
{
    const cublasOperation_t a = s->a_across ? CUBLAS_OP_T : CUBLAS_OP_N, b = s->b_across ? CUBLAS_OP_N : CUBLAS_OP_T;
    const uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;

    if (BLAS(cu, err, MatmulDescCreate, &s->what, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F) < 0 ||
        BLAS(cu, err, MatmulDescSetAttribute, s->what, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b) < 0 ||
        BLAS(cu, err, MatmulDescSetAttribute, s->what, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a) < 0 ||
        BLAS(cu, err, MatrixLayoutCreate, &s->b, CUDA_R_32F, s->b_across ? n : k, s->b_across ? k : n,
             s->b_across ? s->n : s->k) < 0 ||
        BLAS(cu, err, MatrixLayoutCreate, &s->a, CUDA_R_32F, s->a_across ? m : k, s->a_across ? k : m,
             s->a_across ? s->m : s->k) < 0 ||
        BLAS(cu, err, MatrixLayoutCreate, &s->c, CUDA_R_32F, n, m, s->n) < 0)
        return -1;
    return choose(cu, s, err);
}

/* NULL and err on failure. When there are too many, the oldest goes. */
static struct shape *find_shape(struct dp_cuda *cu, const struct dp_cuda_product *p, struct dp_err *err)
{
    struct dp_cuda_blas *b = cu->blas;
    struct shape *s;

    for (int i = 0; i < b->n_shapes; i++) {
        s = &b->shapes[i];
        if (s->m == p->m && s->n == p->n && s->k == p->k && s->a_across == p->a_across && s->b_across == p->b_across)
            return s;
    }
    if (b->n_shapes == SHAPES) {
        drop_shape(b, &b->shapes[0]);
        memmove(b->shapes, b->shapes + 1, (SHAPES - 1) * sizeof *b->shapes);
        b->n_shapes--;
    }
    s = &b->shapes[b->n_shapes];
    *s = (struct shape){.m = p->m, .n = p->n, .k = p->k, .a_across = p->a_across, .b_across = p->b_across};
    if (describe(cu, s, err) < 0) {
        drop_shape(b, s);
        return NULL;
    }
    b->n_shapes++;
    return s;
}

int dp_cuda_blas_product(struct dp_cuda *cu, const struct dp_cuda_product *p, void *workspace, struct dp_err *err)
{
    const float one = 1.0f, beta = p->add ? 1.0f : 0.0f;
    const struct shape *s = find_shape(cu, p, err);

    if (!s)
        return -1;
    if (!s->has_algorithm)
        return 1;
    if (dp_cuda_flush(cu, err) < 0)
        return -1;
    return BLAS(cu, err, Matmul, cu->blas->handle, s->what, &one, p->b, s->b, p->a, s->a, &beta, p->c, s->c, p->c, s->c,
                &s->algorithm, workspace, DP_CUDA_BLAS_BYTES, cu->lanes[DP_LANE_COMPUTE].stream);
}
#endif
