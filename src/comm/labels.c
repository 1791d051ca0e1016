#include "comm/labels.h"

void rondo_labels_init(struct rondo_labels *labels)
{
    *labels = (struct rondo_labels){0};
    pthread_mutex_init(&labels->lock, NULL);
}

void rondo_labels_fini(struct rondo_labels *labels)
{
    pthread_mutex_destroy(&labels->lock);
}

uint16_t rondo_labels_add(struct rondo_labels *labels)
{
    pthread_mutex_lock(&labels->lock);
    const uint16_t number = labels->last == UINT16_MAX ? 1 : labels->last + 1;
    labels->last = number;
    labels->labels[number % RONDO_LABELS] = (struct rondo_label){.number = number};
    pthread_mutex_unlock(&labels->lock);
    return number;
}

void rondo_labels_note(struct rondo_labels *labels, uint16_t number, unsigned first, uint64_t bytes, uint32_t ops)
{
    pthread_mutex_lock(&labels->lock);
    struct rondo_label *label = &labels->labels[number % RONDO_LABELS];
    if (label->number == number) {
        if (label->ops == 0) {
            label->first = (uint8_t)first;
            label->bytes = bytes;
        }
        label->ops += ops;
    }
    pthread_mutex_unlock(&labels->lock);
}

bool rondo_labels_find(struct rondo_labels *labels, uint16_t number, struct rondo_label *label)
{
    pthread_mutex_lock(&labels->lock);
    *label = labels->labels[number % RONDO_LABELS];
    pthread_mutex_unlock(&labels->lock);
    return number && label->number == number && label->ops;
}
