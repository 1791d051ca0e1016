/* Made-up sysfs trees: what a kernel would show of a machine, in a directory of the test's. */
#ifndef RONDO_TESTS_SYSFS_TREE_H
#define RONDO_TESTS_SYSFS_TREE_H

struct sysfs_tree {
    char root[64]; /* sysfs is ROOT/sys, and ROOT/proc is beside it */
    char sys[80], proc[80];
};

/* An empty one in /tmp. */
void tree_create(struct sysfs_tree *tree, const char *cpu_vendor);
void tree_destroy(const struct sysfs_tree *tree);

void tree_add_numa(const struct sysfs_tree *tree, int number, const char *cpus);

/* A device at a path like "pci0000:15/0000:15:01.0/0000:16:00.0", whose upper parts need not be there yet. Links run at
 * 32 GT/s x16. */
void tree_add_bridge(const struct sysfs_tree *tree, const char *path, int numa);
void tree_add_gpu(const struct sysfs_tree *tree, const char *path, int numa);
void tree_add_nvswitch(const struct sysfs_tree *tree, const char *path);

/* A file of a device. */
void tree_set(const struct sysfs_tree *tree, const char *path, const char *file, const char *text);

/* An extended configuration space with an ACS capability behind another one. */
void tree_set_acs(const struct sysfs_tree *tree, const char *path, unsigned control);

/* The first `bytes` of its configuration space only, as users see it who are not root. */
void tree_cut_config(const struct sysfs_tree *tree, const char *path, unsigned bytes);

#endif
