// Linear terms of a head that the lookup can sum itself: LR tables, projected embeddings, numerics, FM, and
// the scalars of DCN-v1's closed form. They become channels of the item rows' MultiLookup, fed by derived
// tables of one row of scalars per id.
//
// A table whose rows come and go (PlanTable::alone) is asked for what one row of its own gives, and for
// nothing with dense weights in it: these may be others tomorrow, and no row in the host tier would say so.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/analysis/form.hpp"

namespace dpi::plan {

class Scalars {
 public:
  explicit Scalars(Plan& plan);

  /// Takes what it can out of the form and puts the channels that hold it in.
  void take(const Index& index, LinearForm& form);

  /// Makes the MultiLookup and its tables, if anything was taken. Appends ops.
  void finish();

 private:
  struct Field {  // one bag under one pooling; of a table that is alone, in that table
    int32_t input = -1;
    int32_t own_table = -1;  // plan table that is alone
    kernels::EmbedAttrs embed;
    int64_t rows = 0;
    std::map<int32_t, std::vector<PlanTable::Term>> terms;  // by channel
    int32_t direct_table = -1;  // plan table when a single plain column is all there is
  };
  struct Numeric {
    std::map<int32_t, double> lin;  // by channel
    std::vector<std::vector<float>> fm_vectors;
  };

  bool can_take(const Index& index, const FormTerm& t) const;
  bool is_alone(const PlanOp& embed) const;
  const PlanTable& table_of(const Index& index, const FormTerm& t) const;  // of an Embed's
  bool keeps_explicit(const Index& index, const FormTerm& t) const;
  static bool is_plain(const Field& f);
  bool reads_as_stored(const Field& f) const;
  int64_t derived_bytes(const Field& f) const;
  int64_t growth(const Index& index, const FormTerm& t, int32_t first, int32_t last);
  bool within_budget(int64_t growth);
  void add_to_channel(const Index& index, int32_t channel, const FormTerm& t);
  Field* find_field(const PlanOp& embed);
  Field& field_of(const PlanOp& embed);
  bool take_fm(const Index& index, const FormTerm& t, int32_t channel);
  bool take_cross(const Index& index, FormTerm& t);
  int32_t cross_scalars(const Index& index, const PlanOp& cross,
                        const std::vector<std::vector<double>>& weights);  // -1: they are not the lookup's
  int32_t channel_value(int32_t first, int32_t count, const std::string& name);
  int32_t chan();
  PlanTable derived_table(const Field& f) const;
  void note_explicit();
  void note_apart();
  void finish_fields(PlanOp& op);
  void finish_numerics(PlanOp& op);
  int32_t partner_table(const Field& f, bool or_tiered) const;

  Plan& p_;
  std::map<int32_t, std::vector<size_t>> embeds_;  // ops by what they look up
  int64_t budget_ = 0;                             // bytes that derived tables may still take
  bool noted_ = false;
  std::vector<std::string> explicit_;  // tables whose linear parts have dense weights in them
  int32_t chan_ = -1;                  // the value of all channels
  int32_t n_channels_ = 0;
  std::map<int32_t, double> bias_;
  std::vector<Field> fields_;
  std::map<int32_t, Numeric> numerics_;  // by input value
  std::vector<kernels::LookupField> fm_fields_;
  std::vector<std::pair<int32_t, int32_t>> fm_sources_;  // input value, plan table
  int32_t fm_channel_ = -1;
  int32_t fm_dim_ = 0;
  std::vector<PlanOp> new_ops_;
};

}  // namespace dpi::plan
