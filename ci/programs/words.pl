# Hashes of arrays, strings that grow, regular expressions, sorting: what perl is used for.
use strict;
use warnings;

my $state = 12345;
sub number { $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $_[0] }

my (%places, @lines);
my @syllables = map { my $c = $_; map { "$c$_" } qw(a e i o u an er in) } qw(b d f g k l m n p r s t v);
for my $line (1 .. 20000) {
    my @words = map { join '', map { $syllables[number(scalar @syllables)] } 1 .. 1 + number(3) } 1 .. 5 + number(10);
    push @{$places{$_}}, $line for @words;
    push @lines, join ' ', @words;
}
printf "%d words\n", scalar keys %places;
my $text = join "\n", @lines;
my $count = () = $text =~ /\b(?:ba|de)\w*n\b/g;
print "$count matches\n";
(my $changed = $text) =~ s/(\w+)(an|er)\b/ucfirst(reverse $1) . $2/ge;
print length($changed), " letters\n";
my @often = sort { @{$places{$b}} <=> @{$places{$a}} || $a cmp $b } keys %places;
print join(' ', map { "$_:" . scalar @{$places{$_}} } @often[0 .. 40]), "\n";
my %pairs;
for (split /\n/, $changed) { my @w = split; $pairs{"$w[$_ - 1] $w[$_]"}++ for 1 .. $#w }
print scalar(keys %pairs), " pairs\n";
delete @pairs{grep { $pairs{$_} == 1 } keys %pairs};
print join(',', (sort keys %pairs)[0 .. 20]), "\n";
my @tree = map { { id => $_, name => "node $_", children => [] } } 0 .. 80000;
push @{$tree[int(($_ - 1) / 3)]{children}}, $tree[$_] for 1 .. $#tree;
sub depth { my $d = 0; for (@{$_[0]{children}}) { my $c = depth($_); $d = $c if $c > $d } return $d + 1 }
print depth($tree[0]), " deep\n";
