/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator of a profile computes and moves, from its text ("Conv2d(3, 64, kernel_size=(3, 3), stride=(2, 2))", as
 * PyTorch prints a module) and from the sizes beside it. No time of the file is looked at. */
#ifndef DP_POLICIES_GRAPH_COSTS_OPERATOR_H
#define DP_POLICIES_GRAPH_COSTS_OPERATOR_H

#include "policies/graph/graph.h"

#define DP_OPERATOR_TYPE 32 /* bytes of a type's name, with its NUL */

struct dp_operator {
    char type[DP_OPERATOR_TYPE]; /* "Conv2d": the text's first word, letters, digits and _ only */
    double flops;                /* of a forward pass, a multiplication and an addition are two; 0: none worth counting */
    double in_bytes, out_bytes;  /* activations */
    double param_bytes;
    double read_bytes; /* of the parameters, in a pass: all, but the rows of an embedding that are looked up */
    double depth; /* terms of a sum of its product: the channels of a group times the kernel's places; 1: no product */
    double area;  /* the kernel's places; 1: none */
    double width; /* channels, or features, that come out; 1: not known */
};

/* text: NULL: nothing is known. The sizes are bytes, >= 0; element_bytes: of one number of them, > 0. in_bytes 0 where the
 * input is data, which has no size in a profile: a convolution's and a product's then follow from what comes out. Every
 * number of *out is finite. */
void dp_operator_read(const char *text, double in_bytes, double out_bytes, double param_bytes, double element_bytes,
                      struct dp_operator *out);

/* Bytes of a number, by the first operator whose parameters can be counted: 1, 2, 4 or 8; 4 where there is none. */
double dp_operator_element_bytes(const struct dp_graph *g);

/* Of every node of a finished profile; *out: [g->n_nodes], to be freed. returns 0, or -1 (DP_ENOMEM). */
int dp_operators_of(const struct dp_graph *g, struct dp_operator **out, struct dp_err *err);

#endif
