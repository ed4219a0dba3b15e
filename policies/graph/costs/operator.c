/* SPDX-License-Identifier: BSD-3-Clause */
/* See operator.h. Arguments are found by place or by name at the first level of the parentheses; what cannot be read counts
 * as not there, so a text can make an estimate poor but never an error. */
#include "policies/graph/costs/operator.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1e9 /* of a number of the text: channels, features, places */

static void read_type(const char *text, char *type)
{
    size_t n = 0;

    while (n + 1 < DP_OPERATOR_TYPE && (isalnum((unsigned char)text[n]) || text[n] == '_')) {
        type[n] = text[n];
        n++;
    }
    type[n] = '\0';
}

/* The argument at `index` at the first level of a module's parentheses, or the one called `name` (NULL: by index). returns: into
 * the text, or NULL. */
static const char *find_argument(const char *text, int index, const char *name)
{
    const char *p = strchr(text, '(');
    size_t n = name ? strlen(name) : 0;
    int depth = 0, at = 0;

    for (p = p ? p + 1 : ""; *p && depth >= 0; p++) {
        if (p[-1] == '(' || p[-1] == ',' || p[-1] == ' ') {
            if (depth == 0 && (name ? !strncmp(p, name, n) && p[n] == '=' : at == index && *p != ' '))
                return name ? p + n + 1 : p;
        }
        if (*p == '(' || *p == '[')
            depth++;
        else if (*p == ')' || *p == ']')
            depth--;
        else if (*p == ',' && depth == 0)
            at++;
    }
    return NULL;
}

/* "3", or the product of "(3, 3)"; none where it is no such thing. A single number stands for both sides of a window. */
static double read_product(const char *p, bool is_window, double none)
{
    double product = 1;
    char *end;

    if (!p)
        return none;
    if (*p != '(') {
        product = strtod(p, &end);
        return end == p || !(product >= 1 && product <= MOST) ? none : is_window ? product * product : product;
    }
    do {
        double v = strtod(p + 1, &end);

        if (end == p + 1 || !(v >= 1 && v <= MOST))
            return none;
        product *= v;
        p = end;
    } while (*p == ',' && product <= MOST);
    return product <= MOST ? product : none;
}

/* An argument that has a name in some releases of PyTorch and only a place in others. */
static double read_number(const char *text, int index, const char *name)
{
    double v = read_product(find_argument(text, 0, name), false, 0);

    return v > 0 ? v : read_product(find_argument(text, index, NULL), false, 0);
}

/* A module that holds one other, "Classifier(  (classifier): Linear(...))", does what that does. */
static const char *skip_shell(const char *text)
{
    const char *inner = strstr(text, "): ");

    return inner && !strstr(inner + 3, "): ") ? inner + 3 : text;
}

static bool is_called(const char *type, const char *begin)
{
    return !strncmp(type, begin, strlen(begin));
}

static bool is_true(const char *value)
{
    return value && is_called(value, "True");
}

/* Weights of a convolution or a product without its bias; 0: not known. */
static double count_weights(const char *text, const char *type)
{
    if (is_called(type, "Conv"))
        return read_number(text, 0, "in_channels") * read_number(text, 1, "out_channels") *
               read_product(find_argument(text, 0, "kernel_size"), true, 1) / read_product(find_argument(text, 0, "groups"), false, 1);
    if (is_called(type, "Linear"))
        return read_number(text, 0, "in_features") * read_number(text, 1, "out_features");
    return 0;
}

static void read_convolution(const char *text, double elements_in, double elements_out, double element_bytes, struct dp_operator *op)
{
    double in = read_number(text, 0, "in_channels"), groups = read_product(find_argument(text, 0, "groups"), false, 1);
    double stride = read_product(find_argument(text, 0, "stride"), true, 1);

    op->area = read_product(find_argument(text, 0, "kernel_size"), true, 1);
    op->width = read_number(text, 1, "out_channels");
    if (!(in > 0 && op->width > 0)) {
        op->width = op->area = 1;
        return;
    }
    if (is_called(op->type, "ConvTranspose")) {
        op->depth = fmax(op->width / groups * op->area, 1);
        op->flops = 2 * elements_in * op->depth;
        return;
    }
    op->depth = fmax(in / groups * op->area, 1);
    op->flops = 2 * elements_out * op->depth;
    if (elements_in <= 0)
        op->in_bytes = elements_out / op->width * in * stride * element_bytes;
}

/* Something that multiplies all its weights with each row: a recurrent layer, whose rows are those of its output (an input that
 * is joined from several is not told in full), or a module of modules, whose rows are those of its input. */
static void read_rows(const char *text, double elements_in, double elements_out, double weights, struct dp_operator *op)
{
    const char *inner = strstr(text, "): ");
    double in = read_number(inner ? inner + 3 : text, 0, inner && is_called(inner + 3, "Linear") ? "in_features" : "input_size");
    double out = inner ? 0 : read_number(text, 1, "hidden_size");

    if (out > 0 && is_true(find_argument(text, 0, "bidirectional")))
        out *= 2;
    if (!(in > 0))
        return;
    op->depth = in;
    op->width = fmax(out, 1);
    op->flops = 2 * weights * (out > 0 ? elements_out / out : elements_in / in);
}

void dp_operator_read(const char *text, double in_bytes, double out_bytes, double param_bytes, double element_bytes,
                      struct dp_operator *out)
{
    *out = (struct dp_operator){.in_bytes = in_bytes, .out_bytes = out_bytes, .param_bytes = param_bytes, .read_bytes = param_bytes};
    out->depth = out->area = out->width = 1;
    if (!text)
        return;
    text = skip_shell(text);
    read_type(text, out->type);
    if (is_called(out->type, "Conv")) {
        read_convolution(text, in_bytes / element_bytes, out_bytes / element_bytes, element_bytes, out);
    } else if (is_called(out->type, "Linear")) {
        double in = read_number(text, 0, "in_features"), width = read_number(text, 1, "out_features");

        if (in > 0 && width > 0) {
            out->depth = in;
            out->width = width;
            out->flops = 2 * out_bytes / element_bytes * in;
            if (in_bytes <= 0)
                out->in_bytes = out_bytes / width * in;
        }
    } else if (strstr(text, "): ") || is_called(out->type, "LSTM") || is_called(out->type, "GRU") || is_called(out->type, "RNN")) {
        read_rows(text, in_bytes / element_bytes, out_bytes / element_bytes, param_bytes / element_bytes, out);
    } else if (is_called(out->type, "Embedding")) {
        out->read_bytes = fmin(out_bytes, param_bytes);
    } else if (strstr(out->type, "Pool")) {
        out->area = read_product(find_argument(text, 0, "kernel_size"), true, 1);
    }
}

double dp_operator_element_bytes(const struct dp_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *n = &g->node[i];
        char type[DP_OPERATOR_TYPE];
        const char *text;
        double weights, bytes;

        if (!n->text || !n->param_bytes)
            continue;
        text = skip_shell(n->text);
        read_type(text, type);
        weights = count_weights(text, type);
        bytes = weights > 0 ? floor((double)n->param_bytes / weights) : 0; /* a bias makes it a little more */
        if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)
            return bytes;
    }
    return 4;
}

int dp_operators_of(const struct dp_graph *g, struct dp_operator **out, struct dp_err *err)
{
    double element = dp_operator_element_bytes(g), *in = calloc(g->n_nodes + 1, sizeof *in);

    *out = calloc(g->n_nodes + 1, sizeof **out);
    if (!in || !*out) {
        free(in);
        free(*out);
        *out = NULL;
        return dp_err_set(err, DP_ENOMEM, "estimate: out of memory");
    }
    for (uint32_t e = 0; e < g->n_edges; e++)
        in[g->edge[e].to] += (double)g->node[g->edge[e].from].output_bytes;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *n = &g->node[i];

        dp_operator_read(n->text, in[i], (double)n->output_bytes, (double)n->param_bytes, element, &(*out)[i]);
    }
    free(in);
    return 0;
}
