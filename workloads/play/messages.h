/* Messages of a connection that wait their turn, in order: a ring that grows. Sizes are in bits. */

#pragma once

#include "common.h"

struct messages {
    double *sizes; /* `room` places, a power of two; the messages are in `count` of them, from `first` on */
    int64_t room, first, count;
};

static inline int messages_put(struct messages *m, double bits) {
    if (m->count == m->room) {
        int64_t room = m->room ? 2 * m->room : 4;
        double *more = malloc((size_t)room * sizeof *more);
        if (!more)
            return NO_MEMORY;
        for (int64_t i = 0; i < m->count; i++)
            more[i] = m->sizes[(m->first + i) & (m->room - 1)];
        free(m->sizes);
        m->sizes = more;
        m->room = room;
        m->first = 0;
    }
    m->sizes[(m->first + m->count++) & (m->room - 1)] = bits;
    return 0;
}

/* There is a first one, where this and the next function are called. */
static inline double messages_first(const struct messages *m) { return m->sizes[m->first]; }

static inline void messages_drop(struct messages *m) {
    m->first = (m->first + 1) & (m->room - 1);
    m->count--;
}
