/* What synchronisation.c and queues.py call of queues.c, which says what they do. */

#pragma once

#include <stdint.h>

#define NO_MEMORY (-1)

struct queues;

struct queues *queues_new(int64_t ports, const double *rate_bps);
void queues_free(struct queues *q);
int64_t queues_connect(struct queues *q, const int32_t *path, int64_t hops);
int queues_send(struct queues *q, int64_t number, double bits);
int64_t queues_advance(struct queues *q, double until_s);
const int32_t *queues_ended(const struct queues *q);
double queues_now(const struct queues *q);
int64_t queues_busy(const struct queues *q);
