/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of many nodes in few words: those that differ in one number only, the last one in the name,
 * are drawn together where the numbers follow each other. */
#include "config.h"

#include "cli/plan/plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/text.h"

struct name {
    const char *text, *tail; /* tail: behind the number; NULL: there is none */
    size_t head;             /* bytes before the number */
    unsigned long number;
    size_t place; /* in the list */
    size_t group; /* place of the first of its kind */
};

static struct name split(const char *text, size_t place)
{
    struct name n = {.text = text, .place = place};
    size_t end = strlen(text), begin;

    while (end > 0 && !isdigit((unsigned char)text[end - 1]))
        end--;
    for (begin = end; begin > 0 && isdigit((unsigned char)text[begin - 1]) && end - begin < 9;)
        begin--;
    if (begin == end || (text[begin] == '0' && end - begin > 1)) /* "007" would come back as "7" */
        return n;
    n.head = begin;
    n.tail = text + end;
    n.number = strtoul(text + begin, NULL, 10);
    return n;
}

static int by_kind(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order;

    if (!x->tail || !y->tail)
        return !x->tail != !y->tail ? (x->tail ? -1 : 1) : x->place < y->place ? -1 : 1;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    order = memcmp(x->text, y->text, x->head);
    order = order ? order : strcmp(x->tail, y->tail);
    if (order)
        return order;
    return x->number != y->number ? (x->number < y->number ? -1 : 1) : x->place < y->place ? -1 : 1;
}

static bool is_same_kind(const struct name *x, const struct name *y)
{
    return x->tail && y->tail && x->head == y->head && !memcmp(x->text, y->text, x->head) &&
           !strcmp(x->tail, y->tail);
}

/* Kinds in the order of their first name in the list, numbers ascending within. */
static int by_group(const void *a, const void *b)
{
    const struct name *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->number != y->number ? (x->number < y->number ? -1 : 1) : x->place < y->place ? -1 : 1;
}

static void group(struct name *name, size_t n)
{
    qsort(name, n, sizeof *name, by_kind);
    for (size_t i = 0, end; i < n; i = end) {
        size_t first = name[i].place;

        for (end = i + 1; end < n && is_same_kind(&name[i], &name[end]); end++)
            first = name[end].place < first ? name[end].place : first;
        for (size_t k = i; k < end; k++)
            name[k].group = first;
    }
    qsort(name, n, sizeof *name, by_group);
}

static void print(FILE *f, const struct name *name, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        const struct name *a = &name[i], *z;
        char clean[512];

        for (end = i + 1;
             end < n && is_same_kind(a, &name[end]) && name[end].number == name[end - 1].number + 1;)
            end++;
        z = &name[end - 1];
        fputs(i ? ", " : "", f);
        if (a == z) {
            fputs(dp_text_clean(clean, sizeof clean, a->text), f);
            continue;
        }
        snprintf(clean, sizeof clean, "%.*s", (int)a->head, a->text);
        {
            char head[512], tail[512];

            dp_text_clean(head, sizeof head, clean);
            fprintf(f, "%s%lu-%lu%s", head, a->number, z->number, dp_text_clean(tail, sizeof tail, a->tail));
        }
    }
}

char *dp_plan_names(const json_t *names)
{
    size_t n = json_array_size(names), bytes, i;
    struct name *name = calloc(n + 1, sizeof *name);
    char *text = NULL;
    FILE *f = open_memstream(&text, &bytes);
    json_t *v;

    if (name && f) {
        json_array_foreach((json_t *)names, i, v) name[i] =
            split(json_string_value(v) ? json_string_value(v) : "", i);
        group(name, n);
        print(f, name, n);
    }
    if (f)
        fclose(f);
    free(name);
    return text;
}
