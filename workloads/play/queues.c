/* The network of queues.py: links that send one segment after the other, in the order in which they came.
 *
 * queues.py calls it and says what the model is. A connection cuts its messages into segments, and has only a few of
 * them at a time in the queues of its own links: the first, and those behind switches that only bridge. A link begins
 * to send a segment on as soon as it can send it without a gap. A connection has a send buffer. What has come stays in
 * it until the acknowledgement is back, which waits at each link of the way back behind what is there: at link l ^ 1
 * for link l. After queues_grow connections are Linux's in more respects: they have windows, fill segments, have more in
 * their own queues where they may send more in a millisecond, and wait for acknowledgements that receivers delay. A
 * flow is a connection whose bytes are no messages: as many as it has room for, or as its rate gives it at each slice.
 * Time is in seconds, sizes are in bits.
 */

#include "messages.h"

#include <math.h>
#include <string.h>

#define SEGMENT_BITS (8.0 * 65536)       /* as much as TCP hands down at a time, unless queues_cut says another size */
#define OFFERED_BITS (2 * SEGMENT_BITS)  /* TCP Small Queues: two of these may wait at the sender for each connection */
#define BUFFER_BITS (8.0 * 4194304)      /* Linux's largest send buffer, unless tcp_wmem says another one */
#define ROOM_AGAIN (BUFFER_BITS * 2 / 3) /* a sender for which it was full writes on when a third is free
                                          * (sk_stream_is_writeable) */
#define SLICE_S 0.01                     /* a flow that has a rate gets what is due so often
                                          * (workloads/perturbing/background.py) */
#define UNSENT_BITS SEGMENT_BITS         /* as much of that may wait that is in no queue yet; the rest is dropped
                                          * (TCP_NOTSENT_LOWAT) */
#define TIMEOUT_S 0.2                    /* Linux sends again after its round trip and as long (TCP_RTO_MIN), then after
                                          * twice that */
#define ROUND_SHARE (1.0 / 8)            /* of the latest round trip in the mean (RFC 6298) */
#define LONGEST_TIMEOUT_S 120.0          /* TCP_RTO_MAX */
#define PROBE_S 0.5                      /* a sender whose own port drops what it sends again waits so long each time
                                          * (TCP_RESOURCE_PROBE_INTERVAL) */
#define LOOKS (1 << 16)                  /* events after which it is looked whether messages still move, beside flows */
#define PACKET_BITS (8.0 * 1514)         /* of an Ethernet link with an MTU of 1500 */
#define FIRST_S 0.03                     /* a window begins with what the slowest link carries in this time, */
#define LEAST_PACKETS 10                 /* with so much at least, as all do to whose ends no route leads, */
#define MOST_PACKETS 128                 /* and with so much at most (docs/decisions/connections-begin-faster.md) */
#define LARGE_PACKETS 45                 /* of these make a segment after queues_grow, unless queues_cut says less */
#define BUCKET_S 0.001                   /* what a shaper of the lab netns lets pass at once, as time of its link, */
#define BUCKET_PACKETS 2                 /* and so much at least */
#define DELAYED_S 0.04                   /* a receiver waits so long for more to acknowledge (TCP_DELACK_MIN) */
#define PACED_S (1.0 / 1024)             /* TCP Small Queues: as much as is sent in this time may wait as well */
#define PACED_RATIO 2                    /* of what is paced to the window, until something is lost
                                          * (tcp_pacing_ss_ratio) */
#define ROUNDED_BITS 1e-6                /* sums of bits may be off by so much; known errors of other schemes are from
                                          * times when that did not count */
#define EQUAL 1e-11                      /* moments that differ by less (relative) are the same */

struct segment {
    double bits, tail_s; /* tail_s: when its end leaves the link before */
    double begun_s;      /* when it came into its first queue */
    double heard_bits;   /* it has no bits and is an acknowledgement of so many, that goes the way back; 0: it is data */
    int32_t connection, hop, next; /* connection -1: another segment has taken its place */
    int32_t ends, paths; /* messages that end with it; paths that the connection of an acknowledgement had taken */
};

struct port {
    double rate_bps, free_s, event_s, left_bits, carried_bits, waiting_bits;
    double others_bits;  /* of flows: what has left, and at the first link of their ways what waits as well */
    int32_t first, last; /* segments that wait */
    int32_t ending, ends; /* connection of which messages end with the segment that is sent now, or -1; how many do */
    bool is_dark;        /* what comes here is lost */
    bool tells;          /* a sender whose first link this is is told so, if it is dark */
    bool is_bridged;     /* it leads to a node that hands segments on without taking them from their sender */
};

struct acknowledgement {
    double at_s, bits;
};

struct connection {
    int32_t *path;
    struct messages messages; /* those that are not cut yet */
    int64_t left;        /* segments of the message that is being cut */
    double each_bits, offered_bits;
    double begun_bits;   /* of the first message, where segments are filled: those that have been cut */
    double given_bits, buffered_bits, sent_bits, came_bits, acknowledged_bits; /* since the beginning */
    double window_bits, most_bits; /* TCP's congestion window, INFINITY for none; the most that was under way */
    struct acknowledgement *back; /* on their way, `back_count` of `back_room` places from `back_first` on */
    double held_bits, held_s, held_begun_s; /* of which the receiver delays the acknowledgement, until `held_s` at most;
                          * when they came into their first queue */
    double round_s, timeout_s; /* mean of its round trips; how long it waits until it sends again what is lost */
    double again_s;      /* when that is, as long as it waits */
    double rate_bps, paid_s; /* of a flow that sends: 0 is no limit; until when it has got what is due */
    int32_t hops, own_hops, back_room, back_first, back_count;
    int32_t mate;        /* the other direction of the same TCP connection, -1 if it is not known */
    int32_t paths;       /* that it has taken */
    int32_t ended;       /* messages that have, and of which an event comes */
    int32_t lost;        /* the first of the segments that it has to send again, linked; -1 if none */
    bool is_full, is_awaited; /* the buffer; an event comes with the next acknowledgement */
    bool is_waiting;     /* something is lost, and the time to send it again has not come */
    bool is_heard;       /* what was lost came to a blocked link: what is sent later acknowledges what came before */
    bool is_resting;     /* it waits without an event, until something may give its path light again */
    bool is_asking;      /* who sends over it has messages whose order may still change */
    bool is_flow, is_on, is_due; /* it is a flow; which sends; an event comes with the next slice */
};

enum { AT_PORT, ENDED, BACK, HELD, DUE, AGAIN };

struct event {
    double at_s;
    uint64_t order;
    int32_t what;        /* a port, ~(a segment that comes to its next port), or a connection */
    int32_t kind;        /* AT_PORT; messages of that connection have ENDED; an acknowledgement is BACK at it, or no more
                          * HELD; what it is to send is DUE; or it sends AGAIN what is lost */
};

struct queues {
    struct port *port;
    struct connection *connection;
    struct segment *segment;
    struct event *event;
    int32_t *ended;
    int64_t ports, connections, connections_room, segments, segments_room, events, events_room, ended_count, ended_room;
    int64_t messages;    /* that have not ended */
    int64_t sending, foreign; /* flows that send; segments of flows that have not left their last link */
    int32_t unused;      /* segments for use, linked */
    uint64_t order;
    double now_s;
    bool grows, lacks_memory; /* connections are as after queues_grow; without this windows have no limit */
    bool fills;          /* segments are filled with what waits, and a small one waits for more room */
    double segment_bits, offered_bits; /* the largest segment; the most of a connection in its own queues */
    double (*choose)(void *, int64_t); /* asks who sends for a connection's next message: its bits, -1 for none */
    void *chooser;
};

void queues_free(struct queues *q) {
    if (!q)
        return;
    for (int64_t i = 0; i < q->connections; i++) {
        free(q->connection[i].path);
        free(q->connection[i].messages.sizes);
        free(q->connection[i].back);
    }
    free(q->port); free(q->connection); free(q->segment); free(q->event); free(q->ended); free(q);
}

/* NULL: there is no memory. */
struct queues *queues_new(int64_t ports, const double *rate_bps) {
    struct queues *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->port = calloc((size_t)ports + 1, sizeof *q->port);
    if (!q->port) {
        queues_free(q);
        return NULL;
    }
    q->ports = ports;
    q->segment_bits = SEGMENT_BITS;
    q->offered_bits = OFFERED_BITS;
    q->unused = -1;
    for (int64_t l = 0; l < ports; l++)
        q->port[l] = (struct port){.rate_bps = rate_bps[l], .event_s = INFINITY, .first = -1, .last = -1, .ending = -1};
    return q;
}

/* Say of each link whether it is bridged, before there are connections. */
void queues_bridge(struct queues *q, const bool *is_bridged) {
    for (int64_t l = 0; l < q->ports; l++)
        q->port[l].is_bridged = is_bridged[l];
}

static bool take_path(const struct queues *q, struct connection *c, const int32_t *path, int64_t hops) {
    int32_t *own = malloc((size_t)hops * sizeof *own);
    if (!own)
        return false;
    memcpy(own, path, (size_t)hops * sizeof *own);
    free(c->path);
    c->path = own;
    c->hops = (int32_t)hops;
    c->paths++;
    c->own_hops = 1;
    while (c->own_hops < hops && q->port[own[c->own_hops - 1]].is_bridged)
        c->own_hops++;
    return true;
}

/* Let connections be as Linux has them without losses; to be called before there are any. Windows begin small and grow,
 * segments have 45 packets and are filled, a connection has in its own queues what it sends in a millisecond at its
 * pace, if that is more than two segments, acknowledgements queue on the way back, a receiver delays that of a single
 * packet, and links are shapers, which hand a segment on whole. Each link l has a link l ^ 1. Limits that queues_cut has
 * set below these stay. */
void queues_grow(struct queues *q) {
    q->grows = q->fills = true;
    if (q->offered_bits >= 2 * q->segment_bits)
        q->offered_bits = INFINITY;
    if (q->segment_bits == SEGMENT_BITS)
        q->segment_bits = LARGE_PACKETS * PACKET_BITS;
}

/* Say how large segments are at most, and how much of a connection may be in its own queues when one more comes. */
void queues_cut(struct queues *q, double segment_bits, double offered_bits) {
    q->segment_bits = segment_bits;
    q->offered_bits = offered_bits;
}

/* Fill segments with what waits, of several messages if need be, as the kernel does. A small one at the end then waits
 * until little of its connection is in the queue, where others may overtake it. */
void queues_fill(struct queues *q) { q->fills = true; }

/* Whether a connection is the other direction of one, in which acknowledgements of what came go with its own data. */
static bool is_back(const struct connection *c, const struct connection *other) {
    return other->hops == c->hops && other->path[0] == (c->path[c->hops - 1] ^ 1) &&
           other->path[other->hops - 1] == (c->path[0] ^ 1);
}

/* Find the other direction of a connection. Of several between the same nodes, the first belongs to the first. */
static void find_mate(struct queues *q, int32_t number) {
    for (int32_t other = 0; other < q->connections; other++)
        if (q->connection[other].mate < 0 && is_back(&q->connection[number], &q->connection[other])) {
            q->connection[number].mate = other;
            q->connection[other].mate = number;
            return;
        }
}

/* Return the number of a new connection along a path of one link or more. */
int64_t queues_connect(struct queues *q, const int32_t *path, int64_t hops) {
    if (!grow(&q->connection, &q->connections_room, q->connections, sizeof *q->connection))
        return NO_MEMORY;
    q->connection[q->connections] = (struct connection){.path = NULL, .lost = -1, .mate = -1};
    struct connection *c = &q->connection[q->connections];
    if (!take_path(q, c, path, hops))
        return NO_MEMORY;
    double slowest_bps = INFINITY;
    for (int64_t i = 0; i < hops; i++)
        slowest_bps = smaller(slowest_bps, q->port[path[i]].rate_bps);
    bool has_route = c->own_hops < hops; /* there is a router on the way */
    double packets = has_route ? smaller(MOST_PACKETS, floor(FIRST_S * slowest_bps / PACKET_BITS)) : 0;
    c->window_bits = q->grows ? larger(LEAST_PACKETS, packets) * PACKET_BITS : INFINITY;
    if (q->grows)
        find_mate(q, (int32_t)q->connections);
    return q->connections++;
}

static bool is_before(const struct event *a, const struct event *b) {
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->order < b->order);
}

static void push(struct queues *q, double at_s, int32_t what, int32_t kind) {
    if (!grow(&q->event, &q->events_room, q->events, sizeof *q->event)) {
        q->lacks_memory = true;
        return;
    }
    struct event e = {at_s, q->order++, what, kind};
    int64_t at = q->events++;
    for (int64_t above; at && is_before(&e, &q->event[above = (at - 1) / 4]); at = above)
        q->event[at] = q->event[above];
    q->event[at] = e;
}

static struct event pop(struct queues *q) {
    struct event first = q->event[0], e = q->event[--q->events];
    int64_t at = 0;
    for (;;) {
        int64_t begin = 4 * at + 1, end = begin + 4 < q->events ? begin + 4 : q->events, least = begin;
        if (begin >= q->events)
            break;
        for (int64_t i = begin + 1; i < end; i++)
            if (is_before(&q->event[i], &q->event[least]))
                least = i;
        if (!is_before(&q->event[least], &e))
            break;
        q->event[at] = q->event[least];
        at = least;
    }
    q->event[at] = e;
    return first;
}

/* Come back to a port when it is free. */
static void schedule(struct queues *q, int32_t l) {
    struct port *p = &q->port[l];
    double at_s = larger(q->now_s, p->free_s);
    if (isinf(at_s) || at_s == p->event_s)
        return;
    p->event_s = at_s;
    push(q, at_s, l, AT_PORT);
}

static void append(struct queues *q, struct port *p, int32_t s) {
    q->segment[s].next = -1;
    if (p->first < 0)
        p->first = s;
    else
        q->segment[p->last].next = s;
    p->last = s;
    p->waiting_bits += q->segment[s].bits;
}

/* A round trip counts in the mean. */
static void count_round(struct connection *c, double round_s) {
    c->round_s += c->round_s > 0 ? ROUND_SHARE * (round_s - c->round_s) : round_s;
}

/* Bits have been acknowledged. Without losses TCP's window grows by as much, as long as it is smaller than twice what
 * was under way at most. */
static void widen(struct connection *c, double bits) {
    c->acknowledged_bits += bits;
    if (c->window_bits < 2 * c->most_bits)
        c->window_bits += bits;
}

/* How much more the windows let a connection send, in whole packets. The receiver's is one segment at first, and grows
 * faster than TCP's own once some has come. */
static double open_bits(const struct queues *q, const struct connection *c) {
    if (isinf(c->window_bits))
        return INFINITY;
    double window_bits = smaller(c->window_bits, c->acknowledged_bits > SEGMENT_BITS / 2 ? INFINITY : q->segment_bits);
    return PACKET_BITS * floor((window_bits - (c->sent_bits - c->acknowledged_bits) + 1) / PACKET_BITS);
}

/* Take what has been acknowledged until now out of the send buffer, and as much into it as there is room for. */
static void fill(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    while (c->back_count && c->back[c->back_first].at_s <= q->now_s) {
        widen(c, c->back[c->back_first].bits);
        c->back_first = (c->back_first + 1) & (c->back_room - 1);
        c->back_count--;
    }
    if (!c->is_full || c->buffered_bits - c->acknowledged_bits <= ROOM_AGAIN) {
        c->buffered_bits = larger(c->buffered_bits, smaller(c->given_bits, c->acknowledged_bits + BUFFER_BITS));
        c->is_full = c->buffered_bits < c->given_bits;
    }
}

/* Come back to a connection that waits for room with its next acknowledgement. */
static void come_back(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    if ((c->is_full || open_bits(q, c) <= 0) && c->back_count && !c->is_awaited) {
        c->is_awaited = true;
        push(q, c->back[c->back_first].at_s, number, BACK);
    }
}

/* A segment leaves the last link. What waits on the way back now decides when its acknowledgement is back; without
 * anything there it counts at once. */
static void foresee(struct queues *q, int32_t number, double bits, double begun_s, double left_s) {
    struct connection *c = &q->connection[number];
    double wait_s = 0;
    for (int32_t hop = c->hops; hop--;) {
        const struct port *p = &q->port[c->path[hop] ^ 1];
        if (p->waiting_bits > 0 && p->rate_bps > 0)
            wait_s += p->waiting_bits / p->rate_bps;
    }
    double at_s = left_s + wait_s;
    count_round(c, at_s - begun_s);
    if (wait_s <= 0 && !c->back_count) {
        widen(c, bits);
        return;
    }
    if (c->back_count == c->back_room) {
        int32_t room = c->back_room ? 2 * c->back_room : 8;
        struct acknowledgement *more = malloc((size_t)room * sizeof *more);
        if (!more) {
            q->lacks_memory = true;
            return;
        }
        for (int32_t i = 0; i < c->back_count; i++)
            more[i] = c->back[(c->back_first + i) & (c->back_room - 1)];
        free(c->back);
        c->back = more;
        c->back_room = room;
        c->back_first = 0;
    }
    if (c->back_count) /* none overtakes another */
        at_s = larger(at_s, c->back[(c->back_first + c->back_count - 1) & (c->back_room - 1)].at_s);
    c->back[(c->back_first + c->back_count++) & (c->back_room - 1)] = (struct acknowledgement){at_s, bits};
}

/* A place for a segment, or -1: there is no memory. */
static int32_t new_segment(struct queues *q) {
    int32_t s = q->unused;
    if (s >= 0) {
        q->unused = q->segment[s].next;
    } else if (grow(&q->segment, &q->segments_room, q->segments, sizeof *q->segment)) {
        s = (int32_t)q->segments++;
    } else {
        q->lacks_memory = true;
    }
    return s;
}

/* Whether a connection has something that is in no queue yet. */
static bool has_more(const struct connection *c) {
    return c->is_flow ? c->given_bits - c->sent_bits > 1 : c->left || c->messages.count;
}

/* Ask for the next messages of a connection, as many as the kernel takes. */
static void ask(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    while (c->is_asking && c->given_bits - c->sent_bits <= q->segment_bits) {
        double bits = q->choose(q->chooser, number);
        if (bits < 0)
            return;
        if (messages_put(&c->messages, bits) < 0) {
            q->lacks_memory = true;
            return;
        }
        q->messages++;
        c->given_bits += bits;
    }
}

/* Say how large the next segment of a connection is that fills segments, and how many messages end with it. */
static double next_filled(const struct queues *q, const struct connection *c, int32_t *ends) {
    double bits = -c->begun_bits, most_bits = smaller(q->segment_bits, open_bits(q, c));
    *ends = 0;
    if (c->is_flow)
        return smaller(most_bits, c->given_bits - c->sent_bits);
    for (int64_t i = 0; i < c->messages.count; i++) {
        double more = c->messages.sizes[(c->messages.first + i) & (c->messages.room - 1)];
        if (bits + more > most_bits)
            return most_bits;
        bits += more;
        ++*ends;
    }
    return bits;
}

/* The pace at which the kernel takes a connection to send (tcp_update_pacing_rate). */
static double pace_bps(const struct connection *c) {
    double grown_bits = larger(MOST_PACKETS * PACKET_BITS, 2 * c->most_bits);
    return PACED_RATIO * (isinf(c->window_bits) ? grown_bits : c->window_bits) / c->round_s;
}

/* Whether the kernel lets a connection have one more segment, of this size, in its queue (tcp_small_queue_check): if it
 * has less than two of this size there, or less than what it may send in a millisecond. */
static bool has_room(const struct queues *q, const struct connection *c, double bits) {
    double paced_bits = c->round_s > 0 ? PACED_S * pace_bps(c) : q->offered_bits;
    return c->offered_bits + (q->grows ? ROUNDED_BITS : 0) < smaller(q->offered_bits, larger(2 * bits, paced_bits));
}

/* Say how large the next segment of a connection is that cuts each message into equal segments, and how many messages
 * end with it. */
static double next_equal(const struct queues *q, struct connection *c, int32_t *ends) {
    if (!c->left) {
        double bits = messages_first(&c->messages);
        messages_drop(&c->messages);
        c->left = bits > q->segment_bits ? (int64_t)ceil(bits / q->segment_bits) : 1;
        c->each_bits = bits / (double)c->left;
    }
    *ends = c->left == 1;
    return c->each_bits;
}

/* Note that the next segment of a connection, with which so many messages end, is cut. */
static void cut(struct queues *q, struct connection *c, int32_t ends) {
    c->offered_bits += c->each_bits;
    c->sent_bits += c->each_bits;
    c->most_bits = larger(c->most_bits, c->sent_bits - c->acknowledged_bits);
    if (c->is_flow) {
        q->port[c->path[0]].others_bits += c->each_bits;
        q->foreign++;
    } else if (q->fills) {
        c->begun_bits += c->each_bits;
        for (int32_t i = 0; i < ends; i++) {
            c->begun_bits -= messages_first(&c->messages);
            messages_drop(&c->messages);
        }
        c->begun_bits = c->messages.count ? c->begun_bits : 0;
    } else {
        c->left--;
    }
}

static void let_go(struct queues *q, int32_t number, double bits);

/* Put segments of a connection into the queue of its first link, as many as it may have in its own. */
static void offer(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    if (c->is_waiting)
        return;
    ask(q, number);
    fill(q, number);
    while (c->offered_bits < q->offered_bits && has_more(c) && (!c->is_full || c->sent_bits < c->buffered_bits) &&
           open_bits(q, c) > 0) {
        int32_t ends;
        c->each_bits = q->fills || c->is_flow ? next_filled(q, c, &ends) : next_equal(q, c, &ends);
        if (q->fills && !has_room(q, c, c->each_bits))
            break;
        int32_t s = new_segment(q);
        if (s < 0)
            return;
        cut(q, c, ends);
        q->segment[s] = (struct segment){
            .bits = c->each_bits, .begun_s = q->now_s, .connection = number, .ends = ends};
        append(q, &q->port[c->path[0]], s);
        if (c->mate >= 0 && q->connection[c->mate].held_bits > 0)
            let_go(q, c->mate, 0); /* with this segment */
        if (c->is_asking) {
            ask(q, number);
            fill(q, number);
        }
    }
    come_back(q, number);
}

static void come(struct queues *q, int32_t l, int32_t s);
static void lose(struct queues *q, int32_t number, bool at_blocked);
static void serve(struct queues *q, int32_t l);

/* Send an acknowledgement along the way back, where it waits behind what is there. */
static void send_back(struct queues *q, int32_t number, double bits, double begun_s) {
    const struct connection *c = &q->connection[number];
    int32_t s = new_segment(q);
    if (s < 0)
        return;
    q->segment[s] =
        (struct segment){.begun_s = begun_s, .heard_bits = bits, .connection = number, .paths = c->paths};
    come(q, c->path[c->hops - 1] ^ 1, s);
}

/* An acknowledgement is back. Its connection goes on. */
static void hear(struct queues *q, int32_t s) {
    struct segment a = q->segment[s];
    struct connection *c = &q->connection[a.connection];
    q->segment[s].next = q->unused;
    q->unused = s;
    count_round(c, q->now_s - a.begun_s);
    widen(c, a.heard_bits);
    offer(q, a.connection);
    serve(q, c->path[0]);
}

/* Send the acknowledgement that a receiver delays, together with one of `bits` more. */
static void let_go(struct queues *q, int32_t number, double bits) {
    struct connection *c = &q->connection[number];
    bits += c->held_bits;
    c->held_bits = 0;
    send_back(q, number, bits, c->held_begun_s);
}

/* A segment begins to cross the last link. After queues_grow its receiver has it, for the shaper of the lab netns hands
 * it on whole as soon as those before it have left. A receiver waits before it acknowledges a single packet: for data of
 * its own to send it with, or for more. */
static void acknowledge(struct queues *q, int32_t number, double bits, double begun_s) {
    struct connection *c = &q->connection[number];
    if (!q->grows) {
        foresee(q, number, bits, begun_s, q->port[c->path[c->hops - 1]].free_s);
    } else if (c->held_bits > 0) {
        let_go(q, number, bits);
    } else if (bits < PACKET_BITS + 1) {
        c->held_bits = bits;
        c->held_begun_s = begun_s;
        c->held_s = q->now_s + DELAYED_S;
        push(q, c->held_s, number, HELD);
    } else {
        send_back(q, number, bits, begun_s);
    }
}

/* Send an acknowledgement on from a port that is free, or take it if that was its last one or its connection has another
 * path now. */
static void pass_back(struct queues *q, int32_t l, int32_t s) {
    struct segment *a = &q->segment[s];
    const struct connection *c = &q->connection[a->connection];
    if (q->port[l].first >= 0)
        schedule(q, l);
    if (a->paths != c->paths || a->hop + 1 == c->hops)
        hear(q, s);
    else
        come(q, c->path[c->hops - 1 - ++a->hop] ^ 1, s);
}

/* Note that messages end with a segment that begins to cross its last link: at its end, or, after queues_grow, now. */
static void end(struct queues *q, int32_t l, int32_t number, int32_t ends) {
    struct port *p = &q->port[l];
    if (ends && q->grows) {
        q->connection[number].ended += ends;
        push(q, q->now_s, number, ENDED);
    } else {
        p->ending = ends ? number : -1;
        p->ends = ends;
    }
}

/* Send the first segment that waits at a port, which is free. */
static void start(struct queues *q, int32_t l) {
    struct port *p = &q->port[l];
    int32_t s = p->first;
    struct segment *segment = &q->segment[s];
    struct connection *c = &q->connection[segment->connection];
    p->first = segment->next;
    if (segment->heard_bits > 0) {
        pass_back(q, l, s);
        return;
    }
    double begins_s = q->now_s;
    if (q->grows)
        begins_s = larger(p->free_s, q->now_s - larger(BUCKET_S, BUCKET_PACKETS * PACKET_BITS / p->rate_bps));
    p->free_s = larger(begins_s + segment->bits / p->rate_bps, segment->tail_s);
    p->carried_bits += segment->bits;
    if (c->is_flow && segment->hop)
        p->others_bits += segment->bits;
    p->waiting_bits = p->first < 0 ? 0 : p->waiting_bits - segment->bits;
    int32_t number = segment->connection;
    bool leaves = segment->hop + 1 == c->own_hops, is_end = segment->hop + 1 == c->hops;
    if (leaves)
        c->offered_bits -= segment->bits;
    if (is_end) {
        end(q, l, number, segment->ends);
        q->foreign -= c->is_flow;
        c->came_bits += segment->bits;
        double bits = segment->bits, begun_s = segment->begun_s;
        segment->next = q->unused;
        q->unused = s;
        acknowledge(q, number, bits, begun_s); /* it may move the segments, and use this one again, as what follows may */
    }
    if (q->grows && !is_end) /* first of all, for the port may be free again at once, and nothing overtakes this segment */
        come(q, c->path[++segment->hop], s);
    if (leaves || is_end)
        offer(q, number);
    if (p->first >= 0 || p->ending >= 0)
        schedule(q, l);
    if ((leaves || is_end) && c->path[0] != l)
        serve(q, c->path[0]);
    if (!q->grows && !is_end) {
        segment = &q->segment[s];
        int32_t next = c->path[++segment->hop];
        segment->tail_s = p->free_s;
        double at_s = p->free_s - segment->bits / q->port[next].rate_bps; /* from then on there is no gap */
        if (at_s > q->now_s)
            push(q, at_s, ~s, AT_PORT);
        else
            come(q, next, s);
    }
}

static void serve(struct queues *q, int32_t l) {
    struct port *p = &q->port[l];
    while (p->is_dark && p->first >= 0 && !q->lacks_memory) {
        int32_t s = p->first;
        if (q->segment[s].heard_bits > 0) { /* a later one tells as much */
            p->first = q->segment[s].next;
            hear(q, s);
        } else {
            lose(q, q->segment[s].connection, p->tells);
        }
    }
    if (p->first < 0 || p->rate_bps <= 0)
        return;
    if (p->free_s <= q->now_s && isinf(p->event_s))
        start(q, l);
    else
        schedule(q, l);
}

static void come(struct queues *q, int32_t l, int32_t s) {
    append(q, &q->port[l], s);
    serve(q, l);
}

/* Whether a message would be one segment that crosses all links of its way at once: they are free and equally fast, and
 * all that its connection has sent has come and is acknowledged. */
static bool meets_nobody(const struct queues *q, const struct connection *c, double bits) {
    if (q->fills || bits > q->segment_bits || c->sent_bits > c->came_bits || c->back_count || c->is_asking)
        return false;
    double rate_bps = q->port[c->path[0]].rate_bps;
    for (int32_t hop = 0; hop < c->hops; hop++) {
        const struct port *p = &q->port[c->path[hop]];
        if (p->free_s > q->now_s || !isinf(p->event_s) || p->is_dark || p->rate_bps != rate_bps)
            return false;
    }
    return rate_bps > 0;
}

/* Send a message that meets nobody: offer and start would come to the same, link by link. */
static void cross(struct queues *q, int32_t number, double bits) {
    struct connection *c = &q->connection[number];
    int32_t last = c->path[c->hops - 1];
    double free_s = q->now_s + bits / q->port[last].rate_bps;
    for (int32_t hop = 0; hop < c->hops; hop++) {
        struct port *p = &q->port[c->path[hop]];
        p->free_s = free_s;
        p->carried_bits += bits;
    }
    c->buffered_bits = c->given_bits;
    c->sent_bits += bits;
    c->came_bits += bits;
    c->most_bits = larger(c->most_bits, c->sent_bits - c->acknowledged_bits);
    end(q, last, number, 1);
    schedule(q, last);
    acknowledge(q, number, bits, q->now_s);
}

int queues_send(struct queues *q, int64_t number, double bits) {
    struct connection *c = &q->connection[number];
    bool is_alone = meets_nobody(q, c, bits);
    if (!is_alone && messages_put(&c->messages, bits) < 0)
        return NO_MEMORY;
    q->messages++;
    c->given_bits += bits;
    if (is_alone) {
        cross(q, (int32_t)number, bits);
    } else {
        offer(q, (int32_t)number);
        serve(q, c->path[0]);
    }
    return q->lacks_memory ? NO_MEMORY : 0;
}

/* Let a connection ask for its messages, now and whenever at most a segment of those that it has got waits to be
 * sent. All connections that do so ask the same. */
int queues_ask(struct queues *q, int64_t number, double (*choose)(void *, int64_t), void *chooser) {
    struct connection *c = &q->connection[number];
    q->choose = choose;
    q->chooser = chooser;
    c->is_asking = true;
    offer(q, (int32_t)number);
    serve(q, c->path[0]);
    return q->lacks_memory ? NO_MEMORY : 1;
}

/* Let a connection, which sends no messages, be a flow from now on: with `is_on` it sends, without it no more. Its rate
 * is without limit if that is 0. */
void queues_flow(struct queues *q, int64_t number, int is_on, double rate_bps) {
    struct connection *c = &q->connection[number];
    q->sending += (is_on != 0) - c->is_on;
    c->is_flow = true;
    c->is_on = is_on;
    c->rate_bps = rate_bps;
    c->paid_s = q->now_s;
    if (rate_bps > 0 && is_on && !c->is_due) {
        c->is_due = true;
        push(q, q->now_s + SLICE_S, (int32_t)number, DUE);
    } else if (rate_bps <= 0 && is_on) {
        c->given_bits = INFINITY;
    } else if (rate_bps <= 0) {
        c->given_bits = c->buffered_bits = c->sent_bits;
        c->is_full = false;
    }
    offer(q, (int32_t)number);
    serve(q, c->path[0]);
}

/* Give a flow what is due, as far as there is room. */
static void pay(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    c->is_due = c->is_on && c->rate_bps > 0;
    if (!c->is_due)
        return;
    double own_bits = isinf(q->offered_bits) ? 2 * q->segment_bits : q->offered_bits; /* in its own queues */
    double room_bits = UNSENT_BITS - (c->given_bits - c->sent_bits) + larger(0, own_bits - c->offered_bits);
    if (!c->is_full)
        c->given_bits += larger(0, smaller(room_bits, (q->now_s - c->paid_s) * c->rate_bps));
    c->paid_s = q->now_s;
    push(q, q->now_s + SLICE_S, number, DUE);
    offer(q, number);
    serve(q, c->path[0]);
}

/* Whether a port of the path of a connection is dark. */
static bool is_dark(const struct queues *q, const struct connection *c) {
    for (int32_t hop = 0; hop < c->hops; hop++)
        if (q->port[c->path[hop]].is_dark)
            return true;
    return false;
}

/* Whether anything that belongs to messages will move by itself. */
int queues_moves(const struct queues *q) {
    for (int64_t l = 0; l < q->ports; l++) {
        const struct port *p = &q->port[l];
        if (p->rate_bps <= 0)
            continue;
        if (p->ending >= 0)
            return true;
        for (int32_t s = p->first; s >= 0; s = q->segment[s].next)
            if (!q->connection[q->segment[s].connection].is_flow)
                return true;
    }
    for (int64_t i = 0; i < q->events; i++) {
        const struct event *e = &q->event[i];
        int32_t number = e->what < 0 ? q->segment[~e->what].connection : e->kind == AT_PORT ? -1 : e->what;
        if (number < 0 || q->connection[number].is_flow)
            continue;
        if (e->what < 0 || e->kind == ENDED || e->kind == BACK || e->kind == HELD ||
            (e->kind == AGAIN && !is_dark(q, &q->connection[number])))
            return true;
    }
    return false;
}

/* Take the segments of a connection that wait at a port out of its queue; return how many are in `taken` then. */
static int64_t take_out(struct queues *q, int32_t l, int32_t number, int32_t *taken, int64_t count) {
    struct port *p = &q->port[l];
    int32_t *link = &p->first, last = -1;
    while (*link >= 0) {
        int32_t s = *link;
        if (q->segment[s].connection != number || q->segment[s].heard_bits > 0) {
            last = s;
            link = &q->segment[s].next;
            continue;
        }
        *link = q->segment[s].next;
        p->waiting_bits -= q->segment[s].bits;
        taken[count++] = s;
    }
    p->last = last;
    if (p->first < 0)
        p->waiting_bits = 0;
    return count;
}

static int by_moment(const void *a, const void *b) {
    const struct event *left = a, *right = b;
    return is_before(right, left) - is_before(left, right);
}

/* Take the segments of a connection that are between two links before `hop`, as others with the same bits. */
static int64_t take_between(struct queues *q, int32_t number, int32_t hop, int32_t *taken, int64_t count) {
    struct event *on_way = malloc(((size_t)q->events + 1) * sizeof *on_way);
    int64_t ways = 0;
    if (!on_way) {
        q->lacks_memory = true;
        return count;
    }
    for (int64_t i = 0; i < q->events; i++) {
        int32_t s = ~q->event[i].what;
        if (s >= 0 && q->segment[s].connection == number && q->segment[s].hop == hop && q->segment[s].heard_bits <= 0)
            on_way[ways++] = q->event[i];
    }
    qsort(on_way, (size_t)ways, sizeof *on_way, by_moment);
    for (int64_t i = 0; i < ways; i++) {
        int32_t s = new_segment(q), old = ~on_way[i].what;
        if (s < 0)
            break;
        q->segment[s] = q->segment[old];
        q->segment[old].connection = -1;
        taken[count++] = s;
    }
    free(on_way);
    return count;
}

/* Take all of a connection that is under way, to send it again, in order. */
static void take_back(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    int32_t *taken = malloc(((size_t)q->segments + 1) * sizeof *taken);
    int64_t count = 0;
    if (!taken) {
        q->lacks_memory = true;
        return;
    }
    for (int32_t hop = c->hops; hop--;) {
        count = take_out(q, c->path[hop], number, taken, count);
        if (hop)
            count = take_between(q, number, hop, taken, count);
    }
    c->offered_bits = 0;
    while (count--) {
        struct segment *segment = &q->segment[taken[count]];
        while (segment->hop) /* links count what comes to its end */
            q->port[c->path[--segment->hop]].carried_bits -= segment->bits;
        segment->next = c->lost;
        c->lost = taken[count];
    }
    free(taken);
}

/* Send again what was taken back, and go on. */
static void send_again(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    c->is_waiting = c->is_resting = false;
    while (c->lost >= 0) {
        int32_t s = c->lost;
        struct segment *segment = &q->segment[s];
        c->lost = segment->next;
        segment->tail_s = 0;
        segment->begun_s = q->now_s;
        c->offered_bits += segment->bits;
        append(q, &q->port[c->path[0]], s);
    }
    offer(q, number);
    serve(q, c->path[0]);
}

/* Something of a connection has come to a dark port. It finds out when its time to send again has come. */
static void lose(struct queues *q, int32_t number, bool at_blocked) {
    struct connection *c = &q->connection[number];
    take_back(q, number);
    if (c->is_waiting)
        return;
    c->is_waiting = true;
    c->is_heard = at_blocked;
    c->timeout_s = c->round_s + TIMEOUT_S;
    c->again_s = q->now_s + c->timeout_s;
    push(q, c->again_s, number, AGAIN);
}

static void wait_longer(const struct queues *q, struct connection *c) {
    const struct port *first = &q->port[c->path[0]];
    if (first->is_dark && first->tells) {
        c->again_s += PROBE_S;
        return;
    }
    c->timeout_s = smaller(2 * c->timeout_s, LONGEST_TIMEOUT_S);
    c->again_s += c->timeout_s;
}

/* It is time to send again. As long as a port of the path is dark, that is lost as well. Without an end of time there
 * is nothing to wait for, unless messages of others lead to a change. What comes after a link was blocked acknowledges
 * what had come the other way before, and there the sender goes on at once (tcp_process_loss). */
static void try_again(struct queues *q, int32_t number, bool has_end) {
    struct connection *c = &q->connection[number];
    if (!c->is_waiting || c->again_s > q->now_s)
        return; /* it was heard meanwhile */
    if (!is_dark(q, c)) {
        bool is_heard = c->is_heard;
        send_again(q, number);
        for (int32_t other = 0; is_heard && other < q->connections; other++)
            if (q->connection[other].is_waiting && is_back(c, &q->connection[other]))
                send_again(q, other);
        return;
    }
    wait_longer(q, c);
    c->is_resting = !has_end;
    if (has_end)
        push(q, c->again_s, number, AGAIN);
}

/* Let a connection that rests send again when it would have done so: its path may change now. */
static void wake(struct queues *q, int32_t number) {
    struct connection *c = &q->connection[number];
    if (!c->is_resting)
        return;
    while (c->again_s < q->now_s)
        wait_longer(q, c);
    c->is_resting = false;
    push(q, c->again_s, number, AGAIN);
}

/* Let a port be dark from now on, or no more. With `tells` it drops packets as a full queue does. */
int queues_darken(struct queues *q, int64_t l, int darkens, int tells) {
    for (int32_t number = 0; number < q->connections; number++)
        wake(q, number);
    q->port[l].is_dark = darkens;
    q->port[l].tells = tells;
    serve(q, (int32_t)l);
    return q->lacks_memory ? NO_MEMORY : 0;
}

/* Let a connection take another path. What is under way begins anew at its first link, in order, or when the time to
 * send it again has come. */
int queues_move(struct queues *q, int64_t moved, const int32_t *path, int64_t hops) {
    int32_t number = (int32_t)moved, first = q->connection[number].path[0];
    wake(q, number);
    take_back(q, number);
    if (q->lacks_memory || !take_path(q, &q->connection[number], path, hops))
        return NO_MEMORY;
    if (!q->connection[number].is_waiting)
        send_again(q, number);
    serve(q, first);
    return q->lacks_memory ? NO_MEMORY : 0;
}

/* Segments of flows that are under way, and flows that send. */
int64_t queues_foreign(const struct queues *q) { return q->foreign + q->sending; }

/* Bits of a connection that have come to its end. */
double queues_came(const struct queues *q, int64_t number) { return q->connection[number].came_bits; }

/* The segment that a link sends now takes longer or less long from now on; at later links it keeps its time. */
void queues_set_rate(struct queues *q, int64_t l, double rate_bps) {
    struct port *p = &q->port[l];
    if (p->free_s > q->now_s) {
        double left_bits = p->rate_bps > 0 ? (p->free_s - q->now_s) * p->rate_bps : p->left_bits;
        p->left_bits = left_bits;
        p->free_s = rate_bps > 0 ? q->now_s + left_bits / rate_bps : INFINITY;
    }
    p->rate_bps = rate_bps;
    if (p->first >= 0 || p->ending >= 0)
        schedule(q, (int32_t)l);
}

/* Tell of messages of a connection that have ended; return whether there was memory. */
static bool tell(struct queues *q, int32_t number, int32_t ends) {
    for (; ends; ends--) {
        if (!grow(&q->ended, &q->ended_room, q->ended_count, sizeof *q->ended)) {
            q->lacks_memory = true;
            return false;
        }
        q->ended[q->ended_count++] = number;
    }
    return true;
}

static void be_free(struct queues *q, int32_t l) {
    struct port *p = &q->port[l];
    p->event_s = INFINITY;
    if (p->free_s > q->now_s) {
        schedule(q, l);
        return;
    }
    if (p->ending >= 0) {
        if (!tell(q, p->ending, p->ends))
            return;
        p->ending = -1;
    }
    if (p->first >= 0)
        serve(q, l);
}

static void happen_at_port(struct queues *q, const struct event *e) {
    if (e->what >= 0) {
        if (e->at_s == q->port[e->what].event_s)
            be_free(q, e->what);
        return;
    }
    int32_t s = ~e->what, number = q->segment[s].connection;
    if (number >= 0) {
        come(q, q->connection[number].path[q->segment[s].hop], s);
    } else {
        q->segment[s].next = q->unused;
        q->unused = s;
    }
}

static void happen(struct queues *q, int32_t number, int32_t kind, bool has_end) {
    struct connection *c = &q->connection[number];
    switch (kind) {
    case BACK:
        c->is_awaited = false;
        offer(q, number);
        serve(q, c->path[0]);
        break;
    case ENDED:
        tell(q, number, c->ended);
        c->ended = 0;
        break;
    case HELD:
        if (c->held_bits > 0 && c->held_s <= q->now_s)
            let_go(q, number, 0);
        break;
    case DUE:
        pay(q, number);
        break;
    case AGAIN:
        try_again(q, number, has_end);
    }
}

static int by_number(const void *a, const void *b) {
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* Go on to the next end of messages, or to `until_s` if that is earlier. Return how many messages have ended. */
int64_t queues_advance(struct queues *q, double until_s) {
    double last_s = until_s;
    int64_t looks = 0;
    q->ended_count = 0;
    while (q->events && q->event[0].at_s <= last_s) {
        struct event e = pop(q);
        bool had_ended = q->ended_count > 0;
        q->now_s = e.at_s;
        if (e.kind == AT_PORT)
            happen_at_port(q, &e);
        else
            happen(q, e.what, e.kind, isfinite(until_s));
        if (q->lacks_memory)
            return NO_MEMORY;
        if (q->sending && isinf(until_s) && ++looks % LOOKS == 0 && !queues_moves(q))
            break;
        if (q->ended_count && !had_ended)
            last_s = smaller(until_s, e.at_s * (1 + EQUAL));
    }
    if (!q->ended_count && isfinite(until_s))
        q->now_s = larger(q->now_s, until_s);
    if (q->ended_count > 1)
        qsort(q->ended, (size_t)q->ended_count, sizeof *q->ended, by_number);
    q->messages -= q->ended_count;
    return q->ended_count;
}

/* Connections whose messages have ended, in ascending order. */
const int32_t *queues_ended(const struct queues *q) { return q->ended; }
double queues_now(const struct queues *q) { return q->now_s; }
int64_t queues_busy(const struct queues *q) { return q->messages; }

void queues_carried(const struct queues *q, double *bits) {
    for (int64_t l = 0; l < q->ports; l++)
        bits[l] = q->port[l].carried_bits;
}

/* Write what flows have given to each link. */
void queues_others(const struct queues *q, double *bits) {
    for (int64_t l = 0; l < q->ports; l++)
        bits[l] = q->port[l].others_bits;
}

/* Write what waits at each link, and is not being sent. */
void queues_waiting(const struct queues *q, double *bits) {
    for (int64_t l = 0; l < q->ports; l++)
        bits[l] = q->port[l].waiting_bits;
}
