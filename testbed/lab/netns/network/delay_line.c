/* The inner loop of delay_line.py, which calls it and says what it is for.
 *
 * It reads what netfilter queues tell, keeps each packet's id until it is due, and gives verdicts. A link whose packets
 * are all delayed alike is decided about here; another asks `decide`. Numbers and layouts are those of
 * linux/netfilter/nfnetlink_queue.h. Functions give 0 or a number of errno.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#define SECOND_NS 1000000000LL
#define EARLY_NS 10000       /* what is due so soon goes now: about what the way from here to the packet takes */
#define MARGIN_NS 20000      /* of the timer */
#define MOST_LEAD_NS 100000  /* an idle core of a virtual machine takes 30 to 100 us to wake up */
#define STALE_NS SECOND_NS   /* an arrival that seems longer ago is a stepped clock's doing */
#define READS 64             /* messages of one queue before others, and what is due, are looked at */
#define MESSAGE_BYTES 512    /* as many as one about a packet has, with room to spare */
#define ACCEPT 1
#define DROP 0
#define QUEUE 3

enum { LOST = -1, AHEAD = -2, CUT = -3 };  /* what `decide` says in place of a time, as in delay_line.py */
enum { WHOLE, CUTTING };                   /* queues of a link: of large packets as they are, and cut into those of the wire */

typedef int64_t (*decide_t)(int64_t link, int64_t arrived_ns, int64_t packets);

struct waiting {
    int64_t due_ns;
    uint32_t packet, queue;
};

struct link {
    int fd[2];
    uint16_t number[2];
    bool decides;                   /* whether `decide` is asked */
    int64_t delay_ns, last_ns;      /* last_ns: when the packet before is due, which none may overtake */
    int64_t payload_bytes;          /* of a packet of the wire; 0 if lengths are not asked */
    struct waiting *ring;           /* a ring of as many places as a power of two */
    uint64_t places, first, beyond; /* numbers of packets; those from first on, up to beyond, wait */
};

/* What was seen, as delay_line.py reads it. */
struct seen {
    int64_t packets, lost, latest_ns, refused_link;
    int64_t late[64];               /* verdicts by the bit length of their lateness (ns) */
};

struct line {
    struct seen *seen;
    decide_t decide;
    int epoll, timer;
    int64_t armed_ns, armed_for_ns, lead_ns;
    int64_t headers_bytes;          /* of each packet of the wire */
    struct link *link;
    int32_t *heap;                  /* links on which packets wait, the one whose first is due first on top */
    int64_t links, waiting_links;
    char buffer[READS][MESSAGE_BYTES];
};

enum { TIMER = -1, REQUEST = -2 };  /* what an event of epoll is of, where it is of no queue */

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static int watch(struct line *l, int fd, uint32_t events, int64_t what) {
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what};
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

int delay_line_version(void) {
    return 1;
}

/* NULL if there is no memory, or the kernel refuses. `requests`: a descriptor whose requests end delay_line_serve. */
struct line *delay_line_new(struct seen *seen, decide_t decide, int requests, int64_t headers_bytes) {
    struct line *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct line){.seen = seen, .decide = decide, .lead_ns = MARGIN_NS, .headers_bytes = headers_bytes};
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    /* Nobody reads the timer, so it tells only that it has come once more. */
    if (watch(l, l->timer, EPOLLIN | EPOLLET, TIMER) || watch(l, requests, EPOLLIN, REQUEST))
        return NULL;
    return l;
}

/* Serve one more link, whose number is that of links before it. */
int delay_line_open(struct line *l, int whole, uint16_t whole_number, int cutting, uint16_t cutting_number) {
    int64_t number = l->links;
    struct link *links = realloc(l->link, (size_t)(number + 1) * sizeof *links);
    if (!links)
        return ENOMEM;
    l->link = links;
    int32_t *heap = realloc(l->heap, (size_t)(number + 1) * sizeof *heap);
    if (!heap)
        return ENOMEM;
    l->heap = heap;
    links[number] = (struct link){.fd = {whole, cutting}, .number = {whole_number, cutting_number}};
    l->links++;
    int refused = watch(l, whole, EPOLLIN, 2 * number + WHOLE);
    return refused ? refused : watch(l, cutting, EPOLLIN, 2 * number + CUTTING);
}

/* Treat a link's packets so from now on. */
void delay_line_set(struct line *l, int64_t link, int64_t delay_ns, bool decides, int64_t payload_bytes) {
    l->link[link].delay_ns = delay_ns;
    l->link[link].decides = decides;
    l->link[link].payload_bytes = payload_bytes;
}

/* ---- The heap of links on which packets wait. ---- */

static int64_t due_ns(const struct link *link) {
    return link->ring[link->first & (link->places - 1)].due_ns;
}

static bool is_before(const struct line *l, int64_t a, int64_t b) {
    return due_ns(&l->link[l->heap[a]]) < due_ns(&l->link[l->heap[b]]);
}

static void swap(struct line *l, int64_t a, int64_t b) {
    int32_t moved = l->heap[a];
    l->heap[a] = l->heap[b];
    l->heap[b] = moved;
}

static void push(struct line *l, int32_t link) {
    int64_t at = l->waiting_links++;
    l->heap[at] = link;
    for (; at && is_before(l, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(l, at, (at - 1) / 2);
}

/* The packet that was first on the topmost link has gone. */
static void settle(struct line *l) {
    struct link *top = &l->link[l->heap[0]];
    if (top->first == top->beyond)
        l->heap[0] = l->heap[--l->waiting_links];
    for (int64_t at = 0, child; (child = 2 * at + 1) < l->waiting_links; at = child) {
        child += child + 1 < l->waiting_links && is_before(l, child + 1, child);
        if (!is_before(l, child, at))
            break;
        swap(l, at, child);
    }
}

/* ---- Verdicts. ---- */

static int tell(const struct link *link, int queue, int kind, uint32_t verdict, uint32_t packet) {
    struct {
        struct nlmsghdr head;
        struct nfgenmsg generic;
        struct nlattr attribute;
        struct nfqnl_msg_verdict_hdr verdict;
    } message = {
        {sizeof message, NFNL_SUBSYS_QUEUE << 8 | kind, NLM_F_REQUEST, 0, 0},
        {AF_UNSPEC, NFNETLINK_V0, htons(link->number[queue])},
        {sizeof message.attribute + sizeof message.verdict, NFQA_VERDICT_HDR},
        {htonl(verdict), htonl(packet)},
    };
    return send(link->fd[queue], &message, sizeof message, 0) < 0 ? errno : 0;
}

/* Give the verdict for all packets that are due of the link whose first packet is due first. */
static int let_go(struct line *l, int64_t now_ns) {
    struct link *link = &l->link[l->heap[0]];
    int64_t late_ns = now_ns - due_ns(link);
    late_ns = late_ns > 0 ? late_ns : 0;
    int refused = 0;
    /* A queue keeps its order: one verdict lets all go that came to it up to a packet. */
    while (!refused && link->first < link->beyond && due_ns(link) <= now_ns + EARLY_NS) {
        struct waiting last = link->ring[link->first++ & (link->places - 1)];
        bool another = link->first == link->beyond || due_ns(link) > now_ns + EARLY_NS ||
                       link->ring[link->first & (link->places - 1)].queue != last.queue;
        if (another)
            refused = tell(link, (int)last.queue, NFQNL_MSG_VERDICT_BATCH, ACCEPT, last.packet);
    }
    settle(l);
    l->seen->late[late_ns ? 64 - __builtin_clzll((unsigned long long)late_ns) : 0]++;
    if (late_ns > l->seen->latest_ns)
        l->seen->latest_ns = late_ns;
    return refused;
}

/* Let packets go that are due, and set the timer for what is due next. */
static int release(struct line *l) {
    while (l->waiting_links) {
        int64_t now_ns = clock_ns(CLOCK_MONOTONIC), wait_ns = due_ns(&l->link[l->heap[0]]) - now_ns;
        if (wait_ns > l->lead_ns)
            break;
        int refused = wait_ns <= EARLY_NS ? let_go(l, now_ns) : 0; /* or wait awake: the timer's lead has come */
        if (refused)
            return refused;
    }
    if (l->waiting_links && due_ns(&l->link[l->heap[0]]) != l->armed_for_ns) {
        l->armed_for_ns = due_ns(&l->link[l->heap[0]]);
        l->armed_ns = l->armed_for_ns - l->lead_ns;
        struct itimerspec when = {.it_value = {l->armed_ns / SECOND_NS, l->armed_ns % SECOND_NS}};
        if (timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &when, NULL))
            return errno;
    }
    return 0;
}

/* ---- Packets that have come. ---- */

/* Where an attribute of a message stands, after its header; NULL if the kernel did not say it. */
static const char *attribute(const char *message, size_t length, int kind, size_t size) {
    size_t at = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct nfgenmsg));
    while (at + NLA_HDRLEN <= length) {
        struct nlattr head;
        memcpy(&head, message + at, sizeof head);
        if (head.nla_len < NLA_HDRLEN || at + head.nla_len > length)
            return NULL;
        if (head.nla_type == kind)
            return head.nla_len >= NLA_HDRLEN + size ? message + at + NLA_HDRLEN : NULL;
        at += NLA_ALIGN(head.nla_len);
    }
    return NULL;
}

static int keep(struct line *l, int32_t number, uint32_t queue, uint32_t packet, int64_t due) {
    struct link *link = &l->link[number];
    uint64_t count = link->beyond - link->first;
    if (count == link->places) {
        uint64_t places = count ? 2 * count : 64;
        struct waiting *ring = malloc(places * sizeof *ring);
        if (!ring)
            return ENOMEM;
        for (uint64_t i = 0; i < count; i++)
            ring[(link->first + i) & (places - 1)] = link->ring[(link->first + i) & (link->places - 1)];
        free(link->ring);
        link->ring = ring;
        link->places = places;
    }
    link->last_ns = due > link->last_ns ? due : link->last_ns;
    link->ring[link->beyond++ & (link->places - 1)] = (struct waiting){link->last_ns, packet, queue};
    if (!count)
        push(l, number);
    return 0;
}

static int take_in(struct line *l, int32_t number, int queue);

static int arrived(struct line *l, int32_t number, int queue, const char *message, size_t length, int64_t offset_ns) {
    struct link *link = &l->link[number];
    struct nfqnl_msg_packet_hdr head;
    struct nfqnl_msg_packet_timestamp stamp;
    const char *at = attribute(message, length, NFQA_PACKET_HDR, sizeof head);
    if (!at)
        return 0; /* about no packet */
    memcpy(&head, at, sizeof head);
    uint32_t packet = ntohl(head.packet_id);

    int64_t now_ns = clock_ns(CLOCK_MONOTONIC), arrived_ns = now_ns;
    if ((at = attribute(message, length, NFQA_TIMESTAMP, sizeof stamp))) {
        memcpy(&stamp, at, sizeof stamp);
        int64_t said_ns = (int64_t)be64toh(stamp.sec) * SECOND_NS + (int64_t)be64toh(stamp.usec) * 1000 - offset_ns;
        if (now_ns - STALE_NS < said_ns && said_ns <= now_ns)
            arrived_ns = said_ns;
    }

    int64_t packets = 1; /* of the wire, which a large one makes */
    uint32_t bytes;
    if (queue == WHOLE && link->payload_bytes && (at = attribute(message, length, NFQA_CAP_LEN, sizeof bytes))) {
        memcpy(&bytes, at, sizeof bytes);
        int64_t payload = (int64_t)ntohl(bytes) - l->headers_bytes;
        packets = payload > link->payload_bytes ? (payload + link->payload_bytes - 1) / link->payload_bytes : 1;
    }

    int64_t due = link->decides ? l->decide(number, arrived_ns, packets) : arrived_ns + link->delay_ns;
    if (due == CUT) {
        int refused = tell(link, queue, NFQNL_MSG_VERDICT, QUEUE | (uint32_t)link->number[CUTTING] << 16, packet);
        /* At once: those that came after it must not overtake it. */
        return refused ? refused : take_in(l, number, CUTTING);
    }
    l->seen->packets += packets;
    if (due >= 0)
        return keep(l, number, (uint32_t)queue, packet, due);
    l->seen->lost += due == LOST;
    return tell(link, queue, NFQNL_MSG_VERDICT, due == LOST ? DROP : ACCEPT, packet);
}

/* Note what has come to one queue, up to READS messages, or all that the queue that cuts has. */
static int take_in(struct line *l, int32_t number, int queue) {
    char (*buffer)[MESSAGE_BYTES] = l->buffer, own[READS][MESSAGE_BYTES];
    if (queue == CUTTING)
        buffer = own; /* the other may have messages that are not read yet */
    struct iovec parts[READS];
    struct mmsghdr messages[READS];
    int count;
    do {
        for (int i = 0; i < READS; i++) {
            parts[i] = (struct iovec){buffer[i], MESSAGE_BYTES};
            messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
        }
        count = recvmmsg(l->link[number].fd[queue], messages, READS, MSG_DONTWAIT, NULL);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : errno;
        int64_t offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < count; i++) {
            struct nlmsghdr head;
            memcpy(&head, buffer[i], sizeof head);
            int refused = 0;
            if (head.nlmsg_type == NLMSG_ERROR) {
                struct nlmsgerr error;
                memcpy(&error, buffer[i] + NLMSG_HDRLEN, sizeof error);
                /* A verdict comes too late where the packet's interface has gone; nothing else may be refused. */
                if (error.error && error.error != -ENOENT) {
                    l->seen->refused_link = number;
                    refused = -error.error;
                }
            } else {
                refused = arrived(l, number, queue, buffer[i], messages[i].msg_len, offset_ns);
            }
            if (refused)
                return refused;
        }
    } while (queue == CUTTING && count == READS);
    return 0;
}

/* Serve packets until there is a request (0), or something was refused, or a signal came (EINTR). */
int delay_line_serve(struct line *l) {
    struct epoll_event events[64];
    bool is_asked = false;
    while (!is_asked) {
        int count = epoll_wait(l->epoll, events, 64, -1);
        if (count < 0)
            return errno;
        for (int i = 0; i < count; i++) {
            int64_t what = (int64_t)events[i].data.u64;
            int refused = 0;
            if (what == REQUEST) {
                is_asked = true;
            } else if (what == TIMER) {
                /* The timer is set earlier by as much as it was late of late, and a margin; the rest is waited awake. */
                int64_t wanted_ns = clock_ns(CLOCK_MONOTONIC) - l->armed_ns + MARGIN_NS;
                l->lead_ns += ((wanted_ns < MOST_LEAD_NS ? wanted_ns : MOST_LEAD_NS) - l->lead_ns) / 16;
                l->armed_for_ns = 0;
            } else {
                refused = take_in(l, (int32_t)(what / 2), (int)(what % 2));
            }
            if (refused)
                return refused;
        }
        int refused = release(l);
        if (refused)
            return refused;
    }
    return 0;
}
