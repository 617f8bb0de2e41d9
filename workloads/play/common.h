/* Words that players and networks share. */

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define NO_MEMORY (-1)

/* Of numbers that are not NaN, without a call of the mathematical library. */
static inline double larger(double a, double b) { return a > b ? a : b; }
static inline double smaller(double a, double b) { return a < b ? a : b; }

/* Let an array have a place more than `count`; return whether there was memory. */
static inline bool grow(void *array, int64_t *room, int64_t count, size_t size) {
    if (count < *room)
        return true;
    int64_t more = *room ? 2 * *room : 64;
    void *moved = realloc(*(void **)array, (size_t)more * size);
    if (!moved)
        return false;
    *(void **)array = moved;
    *room = more;
    return true;
}
